"""Short names of C++ functions, from names as demanglers write them."""

import pytest

from insitu.collectors.cpp_names import called_function, identifiers, short_forms


@pytest.mark.parametrize(
    ("full", "short", "long"),
    [
        # Arguments of enclosing functions are left out, and those of the function kept.
        (
            "app::Field::step(int) const::{lambda(int)#1}::operator()(int) const",
            "app::Field::step::{lambda(int)#1}",
            "app::Field::step::{lambda(int)#1}(int) const",
        ),
        ("run(int)::$_0::operator()(int) const", "run::$_0", "run::$_0(int) const"),
        ("run(int)::$_12::operator()() const", "run::$_12", "run::$_12() const"),
        ("run(int)::in(char)::deep(long)", "run::in::deep", "run::in::deep(long)"),
        ("app::operator()(int)::in(int)", "app::operator()::in", "app::operator()::in(int)"),
        (
            "(anonymous namespace)::run(int)::Local::go()",
            "(anonymous namespace)::run::Local::go",
            "(anonymous namespace)::run::Local::go()",
        ),
        ("h(int (*)(char), int)", "h", "h(int (*)(char), int)"),
        # Default arguments of templates are left out where they come last.
        (
            "std::unique_ptr<A, std::default_delete<A> > make<A>(int)",
            "make<A>",
            "make<A>(int)",
        ),
        (
            "std::map<int, B, std::less<int>, std::allocator<int> >::find(int const&)",
            "std::map<int, B>::find",
            "std::map<int, B>::find(int const&)",
        ),
        (
            "std::map<int, std::less<int>, B>::find(int)",
            "std::map<int, std::less<int>, B>::find",
            "std::map<int, std::less<int>, B>::find(int)",
        ),
        ("f(std::set<int, std::less<int> >)", "f", "f(std::set<int>)"),
        ("f(int, std::allocator<int>)", "f", "f(int, std::allocator<int>)"),
        ("g<std::allocator<int> >()", "g<std::allocator<int>>", "g<std::allocator<int>>()"),
        ("void f<int, std::hash<int>, std::equal_to<int> >(char)", "f<int>", "f<int>(char)"),
        ("duration<long, std::ratio<1l, 1l> >::n()", "duration<long>::n", "duration<long>::n()"),
        (
            "duration<long, std::ratio<1l, 60l> >::n()",
            "duration<long, std::ratio<1l, 60l>>::n",
            "duration<long, std::ratio<1l, 60l>>::n()",
        ),
        ("f(std::pair<int,char>)", "f", "f(std::pair<int, char>)"),
        # Namespaces of the ABI belong to std alone.
        (
            "std::__1::list<int, std::__1::allocator<int> >::size() const",
            "std::list<int>::size",
            "std::list<int>::size() const",
        ),
        ("mystd::__1::x()", "mystd::__1::x", "mystd::__1::x()"),
        # Operators are no brackets.
        ("a::operator<(b const&)", "a::operator<", "a::operator<(b const&)"),
        ("a::operator->() const", "a::operator->", "a::operator->() const"),
        ("a::cooperator(b)", "a::cooperator", "a::cooperator(b)"),
    ],
)
def test_a_name_is_as_a_person_would_write_it(full, short, long):
    assert short_forms(full) == (short, long, full)


@pytest.mark.parametrize("full", ["broken(int", "broken)", "broken<int)", "f<(int>)", "f]"])
def test_a_name_whose_brackets_are_no_pairs_is_left_as_it_is(full):
    assert short_forms(full) == (full, full, full)


def test_short_names_are_their_own_short_names():
    for full in ("std::map<int, B, std::less<int> >::find(int)", "run(int)::in(char)::deep(long)"):
        short, _, _ = short_forms(full)
        assert short_forms(short) == (short, short, short)


@pytest.mark.parametrize(
    ("short", "words"),
    [
        ("app::Field<app::Cell, 3>::operator()", ["app", "Field"]),
        ("app::run::{lambda(int)#1}", ["app", "run"]),
        ("(anonymous namespace)::solve_2", ["solve_2"]),
        ("app::operator_name", ["app", "operator_name"]),
        ("2fast", ["fast"]),
        ("", []),
    ],
)
def test_identifiers_are_those_of_the_scopes(short, words):
    assert identifiers(short) == words


LAMBDA = "run(std::pair<int, char>)::{lambda(int, char)#2}"
THREAD = "std::thread::_State_impl<std::thread::_Invoker<std::tuple<{}>>>::_M_run"


@pytest.mark.parametrize(
    ("arguments", "called"),
    [
        ("void (), run(int)::$_0", "run(int)::$_0"),
        (f"void (int, char), {LAMBDA}", LAMBDA),
        ("void (), void (*)()", ""),
    ],
)
def test_a_handler_calls_the_last_argument_of_its_template(arguments, called):
    assert called_function(f"std::_Function_handler<{arguments}>::_M_invoke") == called


@pytest.mark.parametrize(
    ("name", "called"),
    [
        (THREAD.format("run::$_1"), "run::$_1"),
        (THREAD.format("A, B::$_1"), ""),
        ("run::{lambda(int)#1}::_FUN", "run::{lambda(int)#1}"),
        ("run::{lambda(int)#1}::_FUNNY", None),
        ("my::std::_Function_handler<void (), run::$_0>::_M_invoke", None),
    ],
)
def test_a_thread_calls_the_first_item_of_its_tuple(name, called):
    assert called_function(name) == called
