"""A vote of the class in real browsers: a teacher opens it from a lesson, and two students answer on their phones."""

import pytest
from conftest import LEAVING, PATIENT_MS
from playwright.sync_api import expect
from test_page_access import violations

pytestmark = pytest.mark.browser
PHONE = {"width": 390, "height": 844}


class Student:
    """A phone that opened the address of the vote, with the errors of its page."""

    def __init__(self, chromium, address, scheme="light"):
        self.context = chromium.new_context(viewport=PHONE, color_scheme=scheme)
        self.context.set_default_timeout(PATIENT_MS)
        self.context.add_init_script(LEAVING)
        self.page = self.context.new_page()
        self.faults, self.requests = [], []
        self.page.on("console", lambda m: self.faults.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.faults.append(str(e)))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(address)

    def answer(self, option):
        self.page.get_by_role("button", name=option).click()
        self.page.get_by_text("Sent. You can change it").wait_for()

    def close(self):
        assert violations(self.page) == [] and not self.faults
        assert self.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        self.context.close()


def counts(panel):
    return [int(number) for number in panel.locator(".la-v-count").all_inner_texts()]


def test_a_teacher_and_two_students(visit, chromium, address):
    teacher = visit("?lesson=03-rejection")
    box = teacher.locator(".la-widgetbox.la-guess")
    box.get_by_role("button", name="it is accepted").click()
    box.get_by_role("button", name="next").click()
    box.get_by_role("button", name="Ask the class").click()
    panel = box.get_by_role("region", name="A vote of the class")
    panel.get_by_text("“dog” is drafted").wait_for()
    code = panel.locator(".la-v-address b").inner_text()
    assert panel.locator(".la-v-address").inner_text() == f"{address.removeprefix('http://')}/?class={code}"
    assert "--host 0.0.0.0" in panel.inner_text(), "the tests' address is local"

    link = f"{address}/?class={code}"
    first, second = Student(chromium, link), Student(chromium, link.lower(), "dark")
    for student, option in ((first, "it is accepted"), (second, "it is accepted"), (second, "it is rejected")):
        student.answer(option)
    # "Sent." and "2 answers" are shown already after the second student's first answer.
    expect(panel.locator(".la-v-count")).to_have_text(["1", "1"])
    expect(panel.locator(".la-v-answers")).to_have_text("2 answers")
    second.page.reload()
    chosen = second.page.locator("[aria-pressed=true]")
    chosen.wait_for()
    assert chosen.inner_text().endswith("it is rejected")
    assert "right answer" not in second.page.inner_text("main").replace("until the teacher", "")
    assert violations(teacher) == []

    panel.get_by_role("button", name="Show the answer").click()
    reason = "The chance is min(1, 0.3/0.7) = 0.429. The draw is 0.21, below 0.429: it is accepted."
    for page in (teacher, first.page, second.page):
        page.get_by_text(reason).wait_for()
    assert "your answer" in second.page.locator(".la-v-row").nth(1).inner_text()
    assert "✓ right answer" in panel.locator(".la-v-row").first.inner_text() and counts(panel) == [1, 1]

    teacher.locator("#la-lesson-01-one-token-at-a-time").click()  # another lesson, with the same code
    teacher.locator(".la-widgetbox.la-cost").get_by_role("button", name="Ask the class").click()
    first.page.get_by_text("How many one-row passes").wait_for()
    first.answer("little more than 1")
    teacher.evaluate("dispatchEvent(new Event('pagehide'))")  # as when the tab closes
    for student in (first, second):
        student.page.get_by_text(f"No vote is open with the code {code}").wait_for()
        assert not [url for url in student.requests if not url.startswith((address, "data:"))]
        student.close()
    teacher.get_by_text("This vote has ended.").wait_for()


def test_a_student_without_a_code_types_it(chromium, address):
    student = Student(chromium, f"{address}/?class=")
    student.page.get_by_label("The code of the class").fill("k7qm2p")
    student.page.get_by_role("button", name="Join").click()
    student.page.get_by_text("No vote is open with the code K7QM2P").wait_for()
    student.close()
