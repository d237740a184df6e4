"""Language models: the GPT made of parts, and anyone's model behind the same few words.

protocol.py  what every room may ask of a model     gpt.py, block.py  the GPT; loss.py its loss
cached.py    one token at a time                    hub.py            Hugging Face and GGUF models
hugging_face.py  a GPT to and from Hugging Face's folders
"""
