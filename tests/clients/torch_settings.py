# SPDX-License-Identifier: Apache-2.0
"""Every setting of torch's config modules and every switch of torch counts in a key, keeps graphs out, or is known to change
neither graph nor code. One process tries all of them, and compiles nothing."""

import json

import kit

WALK = """if True:
    import importlib, json
    import torch
    import torch._functorch.config, torch._inductor.config
    from warm import _settings, _sources

    def parts():
        # what FxGraphHashDetails and AOTAutogradCacheDetails take, and what is ours
        def said(save, **options):
            try:
                return repr(save(**options))
            except Exception as e:  # a function without uuid(): torch itself keeps nothing
                return repr(e)
        torchs = said(torch._inductor.config.save_config_portable, ignore_private_configs=False)
        return said(_settings.settings, traces=True), torchs, said(torch._functorch.config.save_config)

    def other(value):
        if isinstance(value, bool):
            return not value
        if isinstance(value, (int, float)):
            return value + 1
        if isinstance(value, str):
            return value + "x"
        if isinstance(value, (list, tuple)):
            return type(value)([*value, "x"])
        if isinstance(value, dict):
            return {**value, "x": 1}
        return (lambda *arguments: None) if value is None or callable(value) else None

    tried, unseen, refused = 0, [], []
    for path in _sources.CONFIGS:
        module = importlib.import_module(path)
        for name in list(module._config):
            before, real = parts(), getattr(module, name)
            try:
                setattr(module, name, other(real))
            except Exception:  # an alias, or a field of one type
                refused.append(f"{path}.{name}")
                continue
            tried += 1
            if parts() == before and name not in _settings._HARMLESS.get(path, ()):
                unseen.append(f"{path}.{name}")
            setattr(module, name, real)
    print(json.dumps([tried, refused, unseen]))
"""
# What a program sets by torch's public functions, each with what sets it back.
SWITCHES = """if True:
    import json
    import torch
    from warm import _settings
    backends = torch.backends
    switches = {
        "cudnn": (lambda v: setattr(backends.cudnn, "enabled", v), False, True),
        "cudnn.benchmark": (lambda v: setattr(backends.cudnn, "benchmark", v), True, False),
        "cudnn.deterministic": (lambda v: setattr(backends.cudnn, "deterministic", v), True, False),
        "cudnn.allow_tf32": (lambda v: setattr(backends.cudnn, "allow_tf32", v), False, True),
        "mkldnn": (lambda v: backends.mkldnn.set_flags(v), False, True),
        "nnpack": (lambda v: backends.nnpack.set_flags(v), False, True),
        "flash attention": (backends.cuda.enable_flash_sdp, False, True),
        "efficient attention": (backends.cuda.enable_mem_efficient_sdp, False, True),
        "math attention": (backends.cuda.enable_math_sdp, False, True),
        "cudnn attention": (backends.cuda.enable_cudnn_sdp, False, True),
        "matmul precision": (torch.set_float32_matmul_precision, "medium", "highest"),
        **{f"precision of {of}": (lambda v, one=one: setattr(one, "fp32_precision", v), "ieee", usual)
           for of, one, usual in (("all", backends, "none"), ("oneDNN", backends.mkldnn, "none"),
                                  ("oneDNN's RNNs", backends.mkldnn.rnn, "none"),
                                  ("oneDNN's convolutions", backends.mkldnn.conv, "none"),
                                  ("cuDNN's convolutions", backends.cudnn.conv, "tf32"),
                                  ("RNNs", backends.cudnn.rnn, "tf32"))},
    }
    torch.set_float32_matmul_precision("highest")  # "ieee", no more "none"
    unseen = []
    for name, (set_to, value, usual) in switches.items():
        before = _settings.settings(traces=True)
        set_to(value)
        unseen += [name] if _settings.settings(traces=True) == before else []
        set_to(usual)
        unseen += [f"{name}, set back"] if _settings.settings(traces=True) != before else []
    print(json.dumps([len(switches), unseen]))
"""


class Settings(kit.TestCase):
    def run_one(self, program):
        with kit.Daemon() as daemon:
            return json.loads(daemon.run(program).stdout.splitlines()[-1])

    def test_every_field_of_a_config_module_counts(self):
        tried, refused, unseen = self.run_one(WALK)
        self.assertEqual(unseen, [])
        self.assertGreater(tried, 800)
        self.assertLess(len(refused), 60, refused)

    def test_every_switch_counts_and_is_usual_again_when_it_is_set_back(self):
        tried, unseen = self.run_one(SWITCHES)
        self.assertEqual(unseen, [])
        self.assertEqual(tried, 17)


if __name__ == "__main__":
    kit.main()
