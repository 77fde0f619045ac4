"""MiMo, an architecture that transformers does not have: a Qwen2 with MTP modules in its checkpoint.

Importing this file registers it with transformers, so that MiMo's configuration is read without code of its repository.
"""

from transformers import AutoConfig, AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM


class MimoConfig(Qwen2Config):
    """MiMo's configuration; its fields are those of Qwen2."""

    model_type = "mimo"


class MimoForCausalLM(Qwen2ForCausalLM):
    """MiMo without its MTP modules."""

    config_class = MimoConfig


AutoConfig.register(MimoConfig.model_type, MimoConfig)
AutoModelForCausalLM.register(MimoConfig, MimoForCausalLM)
