"""Language models: the GPT made of parts, and anyone's model behind the same few words.

protocol.py  what other packages use of a model     hub.py           Hugging Face and GGUF models
gpt.py       the GPT; config.py its settings        hugging_face.py  a GPT to and from HF folders
block.py     one layer; loss.py the fused loss      gpt2.py          its tensors in GPT-2's words
perceiver.py reads into latents and back            llama.py         its tensors in Llama's words
encoder.py   an encoder with a linear head          convert.py       a GPT from GPT-2's or Llama's
build.py     a GPT or a Perceiver from its JSON     trainable.py     models to train, their students
cached.py    one token at a time                    weights.py       safetensors, never pickle
static.py    the same in fixed shapes, for a GPU    packed.py        faster products on a CPU
"""
