/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_walk.c - libwarm-python.so in a real Python: one digest for values that do the same, and others for all else.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/support.h"

/* What each program begins with. d(value) is a digest. The folder /own stands for that of torch: code of files in it
 * counts by file and line. made() runs a text as the code of a file and returns its f. */
static const char begin[] =
    "import collections, functools, gc, os, subprocess, sys, types\n"
    "from warm import _values\n"
    "def walker(): return _values.Walker('/own')\n"
    "def d(value): return walker().value('path', value)\n"
    "def table(value): return walker().table('path', value)\n"
    "def space(held, known=()):\n"
    "    return walker().space('m:', types.ModuleType('m'), held, (0, 'm', "
    "frozenset(('skipped',)), False, known))\n"
    "def made(text, file='/other/f.py', **held):\n"
    "    exec(compile(text, file, 'exec'), held)\n"
    "    return held['f']\n"
    "CLOSURE = 'def g(x):\\n    return lambda: x\\nf = g(%s)'\n"
    "class Module: pass\n"
    "class Held:\n"
    "    __slots__ = ('a', 'b', '__dict__')\n"
    "    def __init__(self, **parts):\n"
    "        for name, value in parts.items(): setattr(self, name, value)\n";

static void run(const char *program)
{
    char *library = bin_path("../libexec/warm/libwarm-python.so"), *warm = bin_path("warm");
    if (access(library, R_OK))
        cr_skip_test("libwarm-python.so is not built with sanitizers");
    setenv("WARM_EXE", warm, 1);
    setenv("PYTHONPATH", "client/python", 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    FILE *python = popen("exec python3 -", "w");
    cr_assert(python);
    fprintf(python, "%s%s", begin, program);
    cr_expect_eq(pclose(python), 0, "%s", program);
    free(library);
    free(warm);
}

Test(walk, a_value_has_one_digest_in_each_process_and_another_value_another)
{
    run("values = '''1, True, 1.0, 'a', b'a', None, 2**70, (1, 2), [1, 2], {'a': 1, 'b': [2]}, "
        "{'b': [2], 'a': 1}, ..., 1j,\n"
        "    frozenset('abcdef'), set('abc'), collections.deque([1]), "
        "collections.OrderedDict(a=1), functools.partial(len, (1,)),\n"
        "    os.path.join, len, 'a'.join, property(len), dict.get, type, types.ModuleType('m'), "
        "chr(0xd800)'''\n"
        "code = f'''import collections, functools, os, types\n"
        "from warm import _values\n"
        "w = _values.Walker('/own')\n"
        "print([w.value('path', value).hex() for value in ({values})])'''\n"
        "def digests(seed):\n"
        "    environment = {**os.environ, 'PYTHONHASHSEED': seed}\n"
        "    return eval(subprocess.check_output([sys.executable, '-c', code], env=environment))\n"
        "first = digests('1')\n"
        "assert all(first) and len({*first}) == len(eval(f'({values})')), first\n"
        "assert first == digests('2')\n");
}

Test(walk, what_a_function_does_counts)
{
    run("f = made('def f(x): return x + 1')\n"
        "others = ['def f(x): return x + 2', 'def f(x): return x - 1', 'def f(x, y): return x + "
        "1',\n"
        "          'def g(x): return x + 1\\nf = g', 'def f(x=1): return x + 1', 'def f(*, x=1): "
        "return x + 1',\n"
        "          'def f(x): return (lambda: x + 1)()']\n"
        "assert d(f) == d(made('def f(x): return x + 1', '/another/g.py'))\n"
        "assert len({d(f), *(d(made(text)) for text in others)}) == 8\n"
        "assert d(made('def f(x=2): return x')) != d(made('def f(x=3): return x'))\n"
        "assert d(made('def f(*, x=2): return x')) != d(made('def f(*, x=3): return x'))\n"
        "assert d(made('def f(x): return g', __name__='a')) != d(made('def f(x): return g', "
        "__name__='b'))\n");
}

Test(walk, code_of_torch_counts_by_its_place)
{
    run("f = made('def f(x): return x + 1', '/own/torch/a.py')\n"
        "assert d(f) == d(made('def f(x): return x + 2', '/own/torch/a.py'))\n"
        "assert d(f) != d(made('def f(x): return x + 1', '/own/torch/b.py'))\n"
        "assert d(f) != d(made('\\ndef f(x): return x + 1', '/own/torch/a.py'))\n"
        "assert d(f) != d(made('def f(x): return x + 1', '/own/torchvision/a.py'))\n");
}

Test(walk, what_a_function_encloses_counts_but_for_states_that_torch_sets)
{
    run("text = 'def g(x):\\n    def f():\\n        %s\\n        return x\\n    return f\\nf = "
        "g(%s)'\n"
        "def are_equal(inside, file, a='1', b='2'):\n"
        "    return d(made(text % (inside, a), file)) == d(made(text % (inside, b), file))\n"
        "assert not are_equal('pass', '/other/f.py') and not are_equal('pass', '/own/torch/f.py')\n"
        "assert not are_equal('nonlocal x; x = 3', '/other/f.py')\n"
        "assert are_equal('nonlocal x; x = 3', '/own/torch/f.py')\n"
        "assert not are_equal('nonlocal x; x = 3', '/own/torch/f.py', 'len', 'abs')\n"
        "f = made(CLOSURE % 1)\n"
        "full = d(f)\n"
        "del f.__closure__[0].cell_contents\n"
        "assert d(f) and d(f) != full\n");
}

Test(walk, objects_count_by_what_they_hold)
{
    run("assert d(Held(a=1, c=2)) == d(Held(c=2, a=1))\n"
        "assert len({d(Held()), d(Held(a=1)), d(Held(b=1)), d(Held(c=1)), d(Held(c=2))}) == 5\n"
        "assert d(Held(checked=1)) == d(Held(checked=2))\n"
        "def local():\n"
        "    class Inner: pass\n"
        "    return Inner()\n"
        "for value in (local(), [local()], Held(a=local()), iter([])): assert d(value) == b'', "
        "value\n"
        "class Raises:\n"
        "    __slots__ = ('a',)\n"
        "    def __getattribute__(self, name): raise KeyError(name)\n"
        "assert d(Raises()) == b'' and d([Raises()])\n"
        "assert d(Held())\n");
}

Test(walk, circles_end_and_depend_on_where_they_begin)
{
    run("def circle(end):\n"
        "    one, two = [1], [end]\n"
        "    one.append(two); two.append(one)\n"
        "    return one, two\n"
        "assert d(circle(2)[0]) == d(circle(2)[0]) != d(circle(3)[0]) and d(circle(2)[0]) != "
        "d(circle(2)[1])\n"
        "one, two = circle(2)\n"
        "w = walker()\n"
        "assert [w.value('p', two), w.value('p', one)] == [d(two), d(one)]\n"
        "deep = []\n"
        "for _ in range(100): deep = [deep]\n"
        "assert d(deep) == b'' and d([0] * 100000)\n"
        "assert d([[i] for i in range(300000)]) == b''\n");
}

Test(walk, a_table_counts_value_by_value)
{
    run("assert table({1: 2, 3: 4}) == table({3: 4, 1: 2}) != table({1: 4, 3: 2})\n"
        "assert table([1, 2]) != table([2, 1]) and table({1, 2}) == table({2, 1}) and table({1: "
        "iter([])}) == b''\n"
        "held = {i: made(CLOSURE % i) for i in range(4)}\n"
        "for one in held.values(): one.__closure__[0].cell_contents = held\n"
        "assert table(held)\n");
}

Test(walk, a_namespace_has_an_entry_for_each_function_class_and_constant)
{
    run("class Inner: pass\n"
        "Inner.__module__ = 'm'\n"
        "held = dict(f=len, g=made(CLOSURE % 1), C=Inner, D=dict, n=1, __n__=1, skipped=1, "
        "x=object(), m=sys,\n"
        "            unknown=(iter([]),), method=[].append)\n"
        "digest, found, inner = space(held)\n"
        "kinds = {name: chr(entry[0]) for name, entry in found.items()}\n"
        "assert kinds == dict(__bases__='o', f='o', g='o', C='o', D='o', n='=', unknown='?', "
        "method='o'), kinds\n"
        "assert inner == [('C', Inner, gc.get_referents(Inner.__dict__)[0])], inner\n"
        "assert space(held, (digest,))[1:] == (None, inner)\n"
        "again, other, _ = space({**held, 'g': made(CLOSURE % 2)})\n"
        "assert again != digest and {name for name in found if found[name] != other[name]} == "
        "{'g'}\n"
        "assert space({**held, '__n__': 2, 'skipped': 2})[0] == digest\n"
        "for change in ({'n': 2}, {'C': dict}, {'new': len}): assert space({**held, **change})[0] "
        "!= digest\n"
        "f = made('def f(x=iter([])): pass')\n"
        "assert space({'f': f})[1]['f'][:1] == b'o' and d(f) == b''\n");
}

Test(walk, what_can_change_in_place_is_listed_once_with_its_path)
{
    run("f, inner = made(CLOSURE % [1]), [1]\n"
        "held, w = {'inner': inner}, walker()\n"
        "w.value('a', f); w.value('b', (held, f)); w.table('c', inner)\n"
        "cell = f.__closure__[0]\n"
        "wanted = [('a', cell), ('a', cell.cell_contents), ('b', held), ('b', inner)]\n"
        "found = zip(*w.parts())\n"
        "assert [(path, id(part)) for path, part in found] == [(path, id(part)) for path, part in "
        "wanted], w.parts()\n");
}

Test(walk, nothing_is_kept_behind_the_walker)
{
    run("held = [made(CLOSURE % i) for i in range(3)] + [{'a': [1]}, {1, 2}, Module(), iter([]), "
        "Held(a=1)]\n"
        "def counts(): return [sys.getrefcount(one) for one in (*held, *held[0].__closure__, "
        "Module, list, Held)]\n"
        "def look():\n"
        "    w = walker()\n"
        "    [w.value('p', one) for one in held], w.table('p', held)\n"
        "    w.space('m:', sys, vars(sys), (0, 'sys', frozenset(), False, ())), w.parts()\n"
        "look(); gc.collect()\n"
        "before, blocks = counts(), sys.getallocatedblocks()\n"
        "for _ in range(1000): look()\n"
        "gc.collect()\n"
        "assert counts() == before, (counts(), before)\n"
        "assert sys.getallocatedblocks() - blocks < 2000, sys.getallocatedblocks() - blocks\n");
}

Test(walk, a_library_that_registers_operators_is_seen_until_it_is_unloaded)
{
    run("import _ctypes, ctypes, tempfile\n"
        "from warm import _dispatcher\n"
        "folder = tempfile.TemporaryDirectory()\n"
        "def library(name, function):\n"
        "    path = f'{folder.name}/{name}.so'\n"
        "    subprocess.run(['cc', '-shared', '-x', 'c', '-o', path, '-'], check=True, text=True,\n"
        "                   input=f'void {function}(void) {{}}')\n"
        "    return path\n"
        "def registers(): return _dispatcher.has_registering_library(folder.name)\n"
        "os.mkdir(f'{folder.name}/torch')\n"
        "seen = _dispatcher.additions()\n"
        "ctypes.CDLL(library('other', 'f'))\n"
        "ctypes.CDLL(library('torch/own', '_ZN5torch7Library4ownE'))\n"
        "assert not registers() and _dispatcher.additions() == seen + 2\n"
        "one = ctypes.CDLL(library('one', '_ZN5torch7Library4implE'))\n"
        "assert registers() and registers()\n"
        "_ctypes.dlclose(one._handle)\n"
        "assert not registers()\n");
}
