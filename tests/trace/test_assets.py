"""The bundler: each module runs once, after its imports, and other forms of import are refused."""

import re

import pytest

from lookahead.trace import assets

MODULES = {
    "a/log.js": 'export const SIZE = 2;\nexport class Log {}\nexport function twice(x) {\n  return SIZE * x;\n}\nran.push("log");\n',
    "a/lane.js": 'import {SIZE, twice as doubled} from "./log.js";\nimport "../b/theme.js";\nexport const lane = x => doubled(x) + SIZE;\nran.push("lane");\n',
    "b/theme.js": 'import * as log from "../a/log.js";\n\nexport async function later() {\n  return log.twice(4);\n}\nran.push("theme");\n',
    "b/ring.js": 'import {ring} from "../a/ring.js";\n',
    "a/ring.js": 'import {twice} from "./log.js";\nimport {other} from "../b/ring.js";\n',
}
ENTRY = """import {
  lane,
} from "./a/lane.js";
import {later} from "./b/theme.js";

later().then(eight => done([lane(1), eight, ran.join(" "), typeof SIZE]));
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    for name, source in MODULES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source, encoding="utf-8")
    monkeypatch.setattr(assets, "ASSETS", tmp_path)


@pytest.mark.browser
@pytest.mark.parametrize("convert", [str, assets.minified_script])
def test_modules_run_once_in_the_order_of_their_imports(modules, chromium, convert):
    page = chromium.new_page()
    code = convert(assets.bundle(ENTRY))
    assert page.evaluate(f"new Promise(done => {{ const ran = []; {code} }})") == [4, 8, "log theme lane", "undefined"]
    page.close()


@pytest.mark.parametrize("name", ["page/app", "page/ballot", "page/replay", "page/teaching", "page/waiting"])
def test_the_minifier_writes_a_semicolon_before_nested_rules(name):
    assert not re.search(r"[^;{},>]& ", assets.style(f"{name}.css"))


@pytest.mark.browser
def test_no_property_is_lost_when_gradio_copies_the_rules(chromium):
    page = chromium.new_page()
    lost = page.evaluate(
        """styles => {
          const parsed = text => { const sheet = new CSSStyleSheet(); sheet.replaceSync(text); return [...sheet.cssRules]; };
          const flat = rules => rules.flatMap(rule => [[rule.selectorText, rule.style?.length], ...flat([...(rule.cssRules || [])])]);
          return parsed(styles).filter(rule => String(flat(parsed(rule.cssText))) !== String(flat([rule]))).map(rule => rule.cssText.slice(0, 200));
        }""",
        assets.style("page/app.css"),
    )
    assert lost == [], "a shorthand with a variable, such as `font`, must not be followed by one of its longhands"
    page.close()


def test_modules_that_import_each_other_are_refused(modules):
    with pytest.raises(AssertionError, match=r"import each other: entry.js -> a/ring.js -> b/ring.js -> a/ring.js"):
        assets.bundle('import {ring} from "./a/ring.js";\n')


@pytest.mark.parametrize(
    "form",
    [
        'import log from "./a/log.js";',
        'import {twice} from "a/log.js";',
        'import {twice} from "https://example.com/log.js";',
        'const log = await import("./a/log.js");',
        "const here = import.meta.url;",
        "export default 1;",
        "export let size = 1;",
        "export {size};",
        'export * from "./a/log.js";',
    ],
)
def test_other_forms_are_refused(modules, form):
    with pytest.raises(AssertionError, match=r"^a/new.js: bundle\(\) does not allow"):
        assets.bundle(f"const size = 1;\n{form}\n", "a/new.js")


def test_a_style_sheet_contains_its_imports(modules):
    for name, text in {"a/one.css": "one {}\n", "b/two.css": '@import "../a/one.css";\ntwo {}\n'}.items():
        (assets.ASSETS / name).write_text(text, encoding="utf-8")
    assert assets.style_sheet("b/two.css") == "one {}\n\ntwo {}\n"
