"""Quantized weights: methods that run with torch alone compute as transformers does, and others are refused by name."""

import json
from pathlib import Path

import pytest
import torch
from conftest import emitted, tiny
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GemmaQuantizationConfig
from transformers.integrations.gemma_quant import replace_with_quant_layers
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import lookahead
from lookahead import ModelError
from lookahead.__main__ import main
from lookahead.model import loading, quantization
from lookahead.model.lm import CachedLM

pytestmark = pytest.mark.models

CPU = torch.device("cpu")
TEXT = [*range(40, 80)]
BLOCK = 32


def configured(folder, settings):
    """Set the quantization settings in a folder's configuration."""
    path = Path(folder) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": settings}))
    return folder


def rewritten(folder, change, settings=None):
    """Replace each tensor of a folder by the tensors that `change(name, tensor)` returns."""
    path = Path(folder) / "model.safetensors"
    tensors = [change(name, tensor) for name, tensor in load_file(path).items()]
    save_file({name: tensor.contiguous() for part in tensors for name, tensor in part.items()}, path, {"format": "pt"})
    return configured(folder, settings) if settings else folder


def is_linear(name):
    return name.endswith("_proj.weight")


def blocks_of(weight, rows):
    """Return a weight in 8 bits as [row blocks, rows, column blocks, 32], and the scale of each block."""
    blocks = weight.view(weight.shape[0] // rows, rows, -1, BLOCK)
    scale = 2.0 ** torch.ceil(torch.log2(blocks.abs().amax((1, 3), keepdim=True) / 448))
    return (blocks / scale).to(torch.float8_e4m3fn), scale


def eight_bits(rows, encode):
    """Return the change of tensors to blocks of 8-bit numbers, and the change to the numbers that they represent."""

    def quantize(name, weight):
        if not is_linear(name):
            return {name: weight}
        numbers, scale = blocks_of(weight, rows)
        return {name: numbers.view(weight.shape), f"{name}_scale_inv": encode(scale[:, 0, :, 0])}

    def dequantize(name, weight):
        if not is_linear(name):
            return {name: weight}
        numbers, scale = blocks_of(weight, rows)
        return {name: (numbers.float() * scale).view(weight.shape)}

    return quantize, dequantize


def four_bits(name, weight):
    """Replace the weights of gpt-oss's experts by random blocks of 4-bit numbers."""
    if not name.endswith(("gate_up_proj", "down_proj")):
        return {name: weight}
    experts, inner, outer = weight.shape
    torch.manual_seed(inner)
    blocks = torch.randint(0, 256, (experts, outer, inner // BLOCK, BLOCK // 2), dtype=torch.uint8)
    scales = torch.randint(122, 126, (experts, outer, inner // BLOCK), dtype=torch.uint8)
    return {f"{name}_blocks": blocks, f"{name}_scales": scales}


def unpacked(name, weight):
    tensors = four_bits(name, weight)
    if name in tensors:
        return tensors
    return {name: convert_moe_packed_tensors(*tensors.values(), dtype=torch.float32)}


FP8 = eight_bits(BLOCK, lambda scale: scale)
MXFP8 = eight_bits(1, lambda scale: (torch.log2(scale) + 127).to(torch.uint8))
DEQUANTIZED = {
    "fp8": ("llama", *FP8, {"weight_block_size": [BLOCK, BLOCK]}),
    "mxfp8": ("qwen3", *MXFP8, {"weight_block_size": [1, BLOCK]}),
    "mxfp4": ("gpt_oss", four_bits, unpacked, {}),
}


def pair(method, root):
    """Return the folders of a quantized model and of the same model with the numbers that its weights represent."""
    kind, quantize, dequantize, settings = DEQUANTIZED[method]
    more = {"num_local_experts": 4} if kind == "gpt_oss" else {}
    quantized, plain = (tiny(kind, root / name, **more) for name in ("quantized", "plain"))
    return rewritten(quantized, quantize, {"quant_method": method, **settings}), rewritten(plain, dequantize)


def logits(folder, dtype=torch.float32):
    return CachedLM(loading.load(str(folder), dtype, CPU, False)).forward(TEXT)


@pytest.mark.parametrize("method", DEQUANTIZED)
def test_a_dequantized_model_computes_with_the_numbers_of_its_weights(method, tmp_path):
    quantized, plain = pair(method, tmp_path)
    assert torch.equal(logits(quantized), logits(plain))
    assert logits(quantized, torch.bfloat16).dtype == torch.bfloat16


def ternary(name, weight):
    if not is_linear(name):
        return {name: weight.bfloat16()}
    from transformers.integrations.bitnet import pack_weights  # slow: it imports the compiler of torch

    return {name: pack_weights(weight.sign()), f"{name}_scale": torch.tensor([9.0]).bfloat16()}


@pytest.mark.parametrize("settings", [{}, {"linear_class": "autobitlinear", "quantization_mode": "offline"}])
def test_bitnet_runs_without_a_compiler_as_transformers_computes_it(settings, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-compiler")
    settings = {"quant_method": "bitnet", "modules_to_not_convert": ["lm_head"], **settings}
    folder = rewritten(tiny("llama", tmp_path), ternary, settings)
    computed = logits(folder, torch.bfloat16)
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    with torch.no_grad():
        expected = reference(torch.tensor([TEXT])).logits[0]
    # Activations are rounded to 8 bits, so a rounding difference can grow.
    assert (computed - expected).abs().mean() < 0.02 * expected.std()


def test_packed_integers_run_as_transformers_computes_them(tmp_path):
    folder, settings = tiny("llama", tmp_path), {"num_bits": 8, "modules_to_not_convert": ["lm_head"]}
    model = AutoModelForCausalLM.from_pretrained(folder)
    replace_with_quant_layers(model, GemmaQuantizationConfig(**settings), ["lm_head"])
    packed = {}
    for name, tensor in load_file(Path(folder) / "model.safetensors").items():
        scale = tensor.abs().amax(-1, keepdim=True) / 127 if is_linear(name) else None
        packed[name] = tensor if scale is None else (tensor / scale).round().to(torch.int8)
        if scale is not None:
            packed[f"{name}_scale"] = scale
    activations = {name: torch.tensor(0.0) for name in model.state_dict() if name.endswith("activation_scale")}
    save_file({**packed, **activations}, Path(folder) / "model.safetensors", {"format": "pt"})
    configured(folder, {"quant_method": "gemma", **settings})
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        expected = reference(torch.tensor([TEXT])).logits[0]
    torch.testing.assert_close(logits(folder), expected, rtol=0, atol=1e-3)


def test_every_method_of_a_race_emits_naives_ids_with_quantized_weights(tmp_path):
    quantized, _ = pair("fp8", tmp_path)
    draft = tiny("llama", tmp_path / "draft", layers=1)
    family = lookahead.load(f"{quantized}+{draft}")
    assert family.exactness == "bit-exact"  # our kernels compute the dequantized Llama
    methods = ["naive", "ngram", "draft", "tree", "lookahead", "suffix", "self", "hybrid"]
    for options in ({}, {"temperature": 1.0}):
        texts = [emitted(lookahead.decode(family, TEXT, method, max_new_tokens=32, **options)) for method in methods]
        assert all(ids == texts[0] for ids in texts), options


REFUSED = {
    "gptq": ({"quant_method": "gptq", "bits": 4}, "gptq, which needs more than torch (ImportError"),
    "awq": ({"quant_method": "awq", "bits": 4}, "awq, which needs more than torch"),
    "bitsandbytes": ({"load_in_4bit": True}, "bitsandbytes_4bit, which needs more than torch"),
    "compressed-tensors": ({"quant_method": "compressed-tensors"}, "compressed-tensors"),
    "sinq": ({"quant_method": "sinq"}, "sinq, which needs more than torch"),  # transformers' own check passes
    "unknown": ({"quant_method": "rumor"}, "rumor, which this version of transformers does not support"),
    "mlx": ({"group_size": 64, "bits": 4}, "names no method"),
    "empty": ({}, "names no method"),
    "number": ({"quant_method": 7}, "7, which this version"),
    "list": ([1], "quantization_config is [1] and must be an object"),
    "negative": ({"quant_method": "fp8", "weight_block_size": [-1, -1]}, "fp8, whose settings cannot be read"),
    "type": ({"quant_method": "fp8", "activation_scheme": 10**40}, "fp8, whose settings cannot be read"),
    "long": ({"quant_method": "x" * 10_000}, f"{'x' * 40}, which"),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "message"), REFUSED.values(), ids=REFUSED)
def test_other_methods_are_refused_by_name_before_weights_are_read(settings, message, tmp_path):
    folder = configured(tiny("qwen3", tmp_path), settings)
    (tmp_path / "model.safetensors").write_bytes(b"not read")
    with pytest.raises(ModelError) as error:
        lookahead.load(folder)
    assert message in str(error.value)
    assert len(str(error.value)) < 600


def test_the_command_line_names_the_method_and_exits_with_2(tmp_path, capsys):
    folder = configured(tiny("qwen3", tmp_path), {"quant_method": "aqlm"})
    assert main(["run", "Once", "--models", folder]) == 2
    assert "quantized with aqlm" in capsys.readouterr().err


def test_older_settings_and_those_of_a_text_part_are_found():
    assert quantization.method({"compression_config": {"quant_method": "compressed-tensors"}}) == "compressed-tensors"
    assert quantization.method({"text_config": {"quantization_config": {"quant_method": "fp8"}}}) == "fp8"
    assert quantization.method({"model_type": "llama"}) == ""
