from types import SimpleNamespace

from native import bind


def make(case):
    count = case.inputs()
    return SimpleNamespace(count=count, call=bind(__file__, "paint", count, case.HEIGHT, case.WIDTH, case.LIMIT))


def run(s):
    s.call()


def results(s):
    return (s.count,)
