"""All uses of Gradio's private names, as of the version `READ_IN`.

A test compares requirements.txt with that version, and allows other files only public names. Before you pin a newer Gradio,
read the passages that are named here again, then update `READ_IN`.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import signature
from logging import getLogger
from math import inf
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import gradio as gr
from gradio import networking, queueing, route_utils, routes, state_holder
from gradio.context import LocalContext, get_blocks_context
from gradio.tunneling import CURRENT_TUNNELS
from gradio.utils import get_upload_folder
from gradio_client.utils import is_file_obj_with_meta, traverse
from jinja2 import ChoiceLoader, DictLoader

from ..core.events import LookaheadError, SettingsError
from ..core.numbers import counted
from ..server import logging
from ..server.queue import error_message
from ..server.web import WebServer

READ_IN = "6.31.0"
SESSIONS, GONE_SESSIONS = 1000, 30  # stored for all visitors, and for visitors who have left; one takes 30 kB
WRONG = "the page sends different values; reload it."
POLL_S, POLL_PROGRESS_S = 0.02, 0.1  # between two polls of the queue for work, and for progress
_TEMPLATES = routes.templates.env.loader


def mount(page: gr.Blocks, web: WebServer, max_threads: int, personal: Iterable[str] = (), **options: Any) -> None:
    """Mount the page at the root of `web.app`, with the settings that only `Blocks.launch` makes.

    `personal` endpoints change the state of their caller. They are not tools of assistants, because mcp.py makes the calls
    of all assistants as one visitor.

    - blocks.py `launch` sets the three limits, and `has_launched`, with which processing_utils.py checks paths of files.
      It reads GRADIO_ALLOWED_PATHS and GRADIO_BLOCKED_PATHS, makes the page a web app for phones on a Space, and stores the
      mounted app for `close`.
    - routes.py `startup_events` starts the queue again for each request, unless it is marked as started.
    - queueing.py polls for work 1,000 times per second and for progress 100 times, which takes a tenth of a core.
    - mcp.py serves an assistant through a client of this server. Without `_local_url`, that client connects to the Host
      header of the first request.
    - mcp's server.py repeats the log entries of its transport.
    """
    getLogger("mcp.server.lowlevel.server").addFilter(lambda entry: "exception from stream" not in entry.getMessage())
    page.max_threads = page._queue.max_thread_count = max_threads
    page.state_session_capacity = SESSIONS
    page._queue.sleep_when_free, page._queue.progress_update_sleep_when_free = POLL_S, POLL_PROGRESS_S
    allowed, blocked = _paths("GRADIO_ALLOWED_PATHS"), _paths("GRADIO_BLOCKED_PATHS")
    pwa = page.space_id is not None
    gr.mount_gradio_app(web.app, page, "", pwa=pwa, allowed_paths=allowed, blocked_paths=blocked, **options)
    page.app = web.app.routes[-1].app
    page.app.iterators = _Iterators()
    page.has_launched = page.app.startup_events_triggered = True
    if page.mcp_server_obj:  # without the package, the page has no tools
        page.mcp_server_obj._local_url = web.url
        for name in personal:
            page.mcp_server_obj.tool_to_endpoint.pop(name)


def _paths(variable: str) -> list[str]:
    return [path.strip() for path in os.environ.get(variable, "").split(",") if path.strip()]


def share(page: gr.Blocks, web: WebServer) -> str:
    """Open Gradio's tunnel to this server and return the public address. Raises the tunnel's errors.

    - networking.py writes the tunnel's certificate to `CERTIFICATE_PATH`, which is in the working directory.
    - routes.py excludes the page from search engines if `share` is set.
    """
    networking.CERTIFICATE_PATH = os.path.join(get_upload_folder(), "certificate.pem")
    address = networking.setup_tunnel(web.host, web.port, page.share_token, None, None)
    page.share, page.share_url = True, urlsplit(address)._replace(scheme="https").geturl()
    return page.share_url


def close(page: gr.Blocks) -> None:
    """Close the page and its tunnels, which blocks.py ends only if `launch` blocks."""
    for tunnel in CURRENT_TUNNELS:
        tunnel.kill()
    page.close(verbose=False)


class _Iterators(dict):
    """The runs of an app. routes.py `cancel_event` and queueing.py `reset_iterators` may both remove a run that ends when it is
    stopped. The second must not raise, because it would leave the request open."""

    def __delitem__(self, key: Any) -> None:
        self.pop(key, None)


def report_errors(page: gr.Blocks) -> None:
    """Respond to every event with its values or with an error message, and print no traceback.

    - blocks.py `preprocess_data` makes a function's arguments from a request. It accepts many wrong values, and quotes
      others in errors.
    - utils.py `error_payload` returns null for every error except `gr.Error`, and queueing.py and routes.py print its
      traceback. Every event starts in blocks.py `process_api`, which therefore raises only `gr.Error`.
    - queueing.py, routes.py and route_utils.py print the traceback of other errors.
    """
    prepare, process = page.preprocess_data, page.process_api

    async def preprocess_data(function: Any, inputs: list[Any], state: Any, *more: Any) -> list[Any]:
        try:
            return await prepare(function, _checked(function, inputs, state), state, *more)
        except Exception as error:
            logging.failed("input")
            known = isinstance(error, LookaheadError)
            raise error if known else SettingsError("input", "not valid", WRONG) from None

    async def process_api(*arguments: Any, **options: Any) -> dict[str, Any]:
        try:
            return await process(*arguments, **options)
        except gr.Error as error:
            error.print_exception = False
            raise
        except Exception as error:
            raise gr.Error(error_message(error), print_exception=False) from None

    page.preprocess_data, page.process_api = preprocess_data, process_api
    printing = SimpleNamespace(print_exc=partial(logging.failed, "event"))
    queueing.traceback = routes.traceback = route_utils.traceback = printing


def missing(error: Exception) -> str:
    """Return a message on the argument that a call lacks, from gradio_client's `construct_args`; "" for other errors."""
    before, sentence, name = str(error).partition("No value provided for required argument: ")
    return f"{name} is missing: give it." if sentence and not before else ""


def _checked(function: Any, inputs: list[Any], state: Any) -> list[Any]:
    """Return the inputs, completed with the endpoint's defaults. Raises `SettingsError` for invalid values."""
    if not function.fn:
        raise SettingsError("event", function._id, "only the page may call it; choose another.")
    values, left_out = inputs[: len(function.inputs)], function.inputs[len(inputs) :]
    for name, block in zip(_names(function)[len(inputs) :], left_out, strict=True):
        if not _is_argument(block) or block.value is None:
            raise SettingsError(name, "missing", f"give {counted(len(function.inputs), 'value')}.")
        values.append(block.value)
    traverse(values, _no_file, is_file_obj_with_meta)
    for name, block, value in zip(_names(function), function.inputs, values, strict=True):
        stored = state is not None and not block.stateful and block._id in state
        if not _is_valid(state[block._id] if stored else block, value):
            raise SettingsError(name, value, WRONG)
    return values


def _names(function: Any) -> list[str]:
    """Return the names of a function's inputs: parameters of an endpoint, labels on the page."""
    if function.inputs and all(map(_is_argument, function.inputs)):
        return [*signature(function.fn).parameters]
    return [getattr(block, "label", None) or block.get_block_name() for block in function.inputs]


def _is_argument(block: Any) -> bool:
    """Return whether a block is an argument of an endpoint, without the slow import of api_component.py."""
    return block.get_block_name() == "api"


def _no_file(_: Any) -> None:
    raise SettingsError("input", "a file", "this server accepts none.")


def _is_valid(block: Any, value: Any) -> bool:
    choices = [choice for _, choice in getattr(block, "choices", ())]
    match block:
        case gr.CheckboxGroup() | gr.Dropdown(multiselect=True):
            return isinstance(value, list) and all(item in choices for item in value)
        case gr.Dropdown() | gr.Radio():
            return value in choices or value is block.value is None
        case gr.Checkbox():
            return isinstance(value, bool)
        case gr.Slider():
            return _is_number(value) and block.minimum <= value <= block.maximum
        case gr.Number():
            return value is None or _is_number(value)
        case gr.Textbox() | gr.HTML():  # a script may fill a field with a number
            return isinstance(value, (str, int, float))
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -inf < value < inf


class _Session(state_holder.SessionState):
    """The state of a visitor, without the copy of all components' settings that state_holder.py makes for deep links.

    The copy takes almost a megabyte and 0.14 s, and these pages have no deep links.
    """

    def __init__(self, page: gr.Blocks):
        super().__init__(SimpleNamespace(default_config=page.default_config, blocks=()))

    config_values = property(lambda self: {}, lambda self, values: None)

    def _update_value_in_config(self, key: int, value: Any) -> None:
        pass


state_holder.SessionState = _Session


def forget_closed_sessions(page: gr.Blocks, on_delete: Callable[[str], None]) -> None:
    """Delete the sessions of visitors who have left, and call `on_delete` for each.

    A visitor may return, so a session is deleted after `GONE_SESSIONS` others have left, unless it was used since.
    """
    last_used: dict[str, Any] = {}  # of the sessions whose visitors have left, oldest first

    def left(request: gr.Request) -> None:
        holder = page.state_holder
        last_used.pop(request.session_hash, None)
        last_used[request.session_hash] = holder.time_last_used.get(request.session_hash)
        while len(last_used) > GONE_SESSIONS:
            first = next(iter(last_used))
            if last_used.pop(first) == holder.time_last_used.get(first):
                holder.session_data.pop(first, None)
                holder.time_last_used.pop(first, None)
                on_delete(first)

    page.unload(left)


def visitor() -> str | None:
    """Return the session of the event in this thread, None outside of events.

    utils.py `get_function_with_locals` sets its request before every call, and before every value of a generator.
    """
    return getattr(LocalContext.request.get(None), "session_hash", None)


def address() -> str:
    """Return the page's address in this event's request: Starlette's from mcp.py, else one that Gradio wraps."""
    request = LocalContext.request.get()
    return str(getattr(request, "request", request).base_url).rstrip("/")


def change_template(script: str, card: Mapping[str, str]) -> None:
    """Run a script in every page before Gradio's scripts, and set the preview of links to the page.

    Gradio adds `head` after its scripts. routes.py renders `templates`. Their Open Graph tags have fields of the
    configuration that only an Interface has; `card` has their values.
    """
    environment, changed = routes.templates.env, {}
    for name in ("frontend/index.html", "frontend/share.html"):
        text = _TEMPLATES.get_source(environment, name)[0]
        text = text.replace("<head>", f"<head><script>{{% raw %}}{script}{{% endraw %}}</script>", 1)
        for field, value in card.items():
            text = text.replace(f"config['{field}']", json.dumps(value))
        changed[name] = text
    environment.loader = ChoiceLoader([DictLoader(changed), _TEMPLATES])


def progress_on(component: gr.components.Component) -> None:
    """Show the progress of the last `gr.render` on this component.

    renderable.py shows it on the container of all rendered components. At every message of any run the page copies the
    components that show progress, with their children (core, `update_state`).
    """
    functions = get_blocks_context().fns
    functions[max(functions)].show_progress_on = [component]
