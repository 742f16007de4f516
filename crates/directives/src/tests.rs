//! Sources in, sources out: what stands where, what is refused, and that nothing panics.

use super::*;
use proptest::prelude::*;

fn c(source: &str) -> String {
    translate(source, "f.c", Language::C).unwrap_or_else(|f| panic!("{}", f[0])).expect("it has directives")
}

fn refusal(source: &str, language: Language) -> String {
    let faults = translate(source, "f", language).expect_err("it is refused");
    faults.iter().map(|f| f.to_string()).collect::<Vec<_>>().join("\n")
}

/// What becomes of one directive of C, in a function.
fn one(directive: &str) -> String {
    let source = format!("void f(void)\n{{\n    //fb extern A, B, C, h\n    //fb {directive}\n}}\n");
    let made = c(&source);
    made.lines().rev().nth(1).unwrap().trim().to_owned()
}

fn one_refusal(directive: &str) -> String {
    let source = format!("void f(void)\n{{\n    //fb extern A, B, C, h\n    //fb {directive}\n}}\n");
    refusal(&source, Language::C).replace("f:4:", "")
}

fn fortran(source: &str, language: Language) -> String {
    translate(source, "f.f90", language).unwrap_or_else(|f| panic!("{}", f[0])).expect("it has directives")
}

#[test]
fn a_source_without_directives_is_left_alone() {
    let source = "int main(void) { /* //fb put A, a */ char *t = \"//fb put A, a\"; return '\\'' /* ' */; } // fb put A, a\n//fbx\n";
    assert_eq!(translate(source, "f.c", Language::C), Ok(None));
    assert_eq!(translate("x = '!$fb put A, a' ! no\n!fb put\n!$fbx\n", "f.f90", Language::Fortran), Ok(None));
    assert_eq!(
        translate(
            "const char *t = R\"x(\n//fb put A, a\n)x\"; int n = 1'000;\n",
            "f.cpp",
            Language::Cplusplus
        ),
        Ok(None)
    );
}

#[test]
fn a_directive_becomes_one_statement_in_its_place_and_lines_stay() {
    let source = "#define _GNU_SOURCE\n#include <stdio.h>\n#ifdef X\n#include \"x.h\"\n#endif\nint main(void)\n{\n    double a[4]; //fb create A, a\n    //fb call f(a,\n    //fb        A) /* twice */\n    return 0;\n}\n";
    let made = c(source);
    assert!(made.starts_with("#line 1 \"f.c\"\n#define _GNU_SOURCE\n#include <stdio.h>\n#include <forebay/directives.h>\n#line 3 \"f.c\"\n#ifdef X\n"), "{made}");
    let behind = made.split("#line 3 \"f.c\"\n").nth(1).unwrap();
    let lines: Vec<&str> = behind.lines().collect();
    assert_eq!(lines.len(), source.lines().count() - 2);
    assert!(
        lines[5].starts_with("    double a[4]; { FBD_IS_WHOLE(a); FBD_DO(\"create A, a\", "),
        "{}",
        lines[5]
    );
    assert!(lines[6].contains("fb_arg fbd_args[] = { FBD_ARG(a), fbd_array(\"A\") }; FBD_DO(\"call f(a, A)\", fbd_call(\"f\", fbd_args, 2)); }"), "{}", lines[6]);
    assert_eq!(lines[7..], ["", "    return 0;", "}"]);
}

#[test]
fn each_directive_has_its_call() {
    assert_eq!(one("connect"), "{ FBD_DO(\"connect\", fbd_connect(0)); }");
    assert_eq!(one("connect \"fb://h:1\" status e"), "{ e = fbd_connect(\"fb://h:1\"); }");
    assert!(one("create A, p->x, n, 2 * n order F on \"blas\"").ends_with(
        "fbd_create(\"A\", FBD_COUNTED(p->x, FB_COLUMN_MAJOR, n, 2 * n), \"blas\", __FILE__, __LINE__)); }"
    ));
    assert!(one("create A, f64, n").contains("fbd_create(\"A\", FBD_ROOM(FB_F64, FB_ROW_MAJOR, n), 0, "));
    assert!(one("put A, f(a, b)[2], n").contains("fbd_put(\"A\", FBD_COUNTED(f(a, b)[2], FB_ROW_MAJOR, n))"));
    assert!(one("create A, a order F").contains("fbd_in_order(FBD_WHOLE(a), FB_COLUMN_MAJOR)"));
    assert!(one("get A, a").contains("fbd_get(\"A\", FBD_WHOLE(a))"));
    assert_eq!(
        one("kill A, B"),
        "{ FBD_DO(\"kill A, B\", fbd_kill(\"A\")); FBD_DO(\"kill A, B\", fbd_kill(\"B\")); }"
    );
    assert_eq!(one("wait h status s"), "{ s = fbd_wait(\"h\"); }");
    let call =
        one("call native/dgemm_('N', \"T\", n, &info, array(p, n, m order F), A, (A)) async h status err");
    assert!(call.contains("FB_IN_STR(\"N\"), FBD_ARG(\"T\"), FBD_ARG(n), FBD_PLACE(&info), FBD_ARRAY(p, FB_COLUMN_MAJOR, n, m), fbd_array(\"A\"), FBD_ARG((A)) }"), "{call}");
    assert!(
        call.ends_with("err = fbd_start(\"h\", \"native/dgemm_\", fbd_args, 7, __FILE__, __LINE__); }"),
        "{call}"
    );
    assert!(one("call f()").ends_with("fbd_call(\"f\", 0, 0)); }"));
}

#[test]
fn what_only_the_plain_compiler_takes_is_left_out_and_its_directives_too() {
    let made = c("void f(void)\n{\n    //fb local\n    g(); //fb put A, a\n    //fb end\n}\n");
    assert!(made.contains("    #if 0\n    g(); //fb put A, a\n    #endif\n"), "{made}");
    let made = fortran("!$fb local\ncall g()\n!$fb end\ncall h()\n", Language::Fortran);
    assert_eq!(made, "# 1 \"f.f90\"\n!$fb local\n!call g()\n!$fb end\ncall h()\n");
    assert!(
        refusal("void f(void)\n{\n    //fb local\n}\n", Language::C)
            .starts_with("f:3:5: error: this `local` has no `end`")
    );
    assert!(refusal("void f(void)\n{\n    //fb end\n}\n", Language::C).contains("no `local` before"));
}

#[test]
fn a_directive_that_is_wrong_is_refused_with_its_place_and_what_to_write() {
    for (directive, says) in [
        ("crate A, a", "10: error: `crate` is no directive; did you mean `create`?"),
        ("", "10: error: a directive is missing; there are connect, create"),
        ("qqqqqqq A", "10: error: `qqqqqqq` is no directive; there are connect"),
        ("put A", "15: error: the end stands where `,` should; write put NAME, ARRAY"),
        ("put A a", "16: error: `a` stands where `,` should"),
        ("put D, a", "14: error: no directive of this file has created `D`; did you mean"),
        ("wait later", "15: error: no directive of this file has started (async) `later`; start it"),
        ("put 1, a", "14: error: `1` is no name"),
        ("create D, 100", "20: error: 100 is no array; room without one is a type and extents: f64, 100"),
        ("put A, f64, n", "17: error: f64 is a type, and put wants an array"),
        ("create D, f64", "20: error: how large is it? Write the extents of f64 behind it: f64, N"),
        (
            "create D, a statas e",
            "22: error: `statas` stands where the directive should end; did you mean `status`?",
        ),
        ("create D, a order X", "28: error: `X` is no order"),
        ("create D, a on", "24: error: something must follow `on`"),
        ("call f(A", "16: error: the `(` that stands here is never closed"),
        ("call f(A,", "19: error: the end stands where an argument should"),
        ("call f(array(p))", "24: error: `)` stands where an extent: array(POINTER, EXTENT ...) should"),
        ("call (A)", "15: error: `(` is no name of a service"),
        ("call f(\"x)", "17: error: the text that begins here has no \" at its end"),
        ("kill A, ", "17: error: the end stands where a name should"),
        ("extern A status e", "19: error: this directive does nothing that could fail"),
        ("put A, a, 1, 2, 3, 4, 5, 6, 7, 8, 9", "44: error: an array has at most 8 dimensions"),
    ] {
        let said = one_refusal(directive);
        assert!(said.starts_with(says), "{directive}: {said}");
    }
    let two = refusal("void f(void)\n{\n    //fb pit A, a\n    //fb put A, a\n}\n", Language::C);
    assert_eq!(two.lines().count(), 2, "{two}");
}

#[test]
fn a_directive_stands_only_where_a_statement_may() {
    for before in ["if (x)", "else", "return x +", "for (;;)", "do", "f(1,", "int x =", "FOO(x)"] {
        let said = refusal(&format!("void f(void)\n{{\n{before}\n//fb extern A\ng();\n}}\n"), Language::C);
        assert!(
            said.starts_with("f:4:1: error: a directive is a statement, and the one before it has not ended"),
            "{said}"
        );
    }
    for before in ["x = 1;", "{ }", "case 1:", "", "if (x) {", "}"] {
        c(&format!("void f(void)\n{{\n{before}\n//fb extern A\ng();\n}}\n"));
    }
    assert!(refusal("#define X 1 //fb put A, a\n", Language::C).contains("line of the preprocessor"));
    let said = refusal("x = 1 + & ! more\n\n  !$fb kill a\n  2\n", Language::Fortran);
    assert!(
        said.contains("f:3:3: error: a directive is a statement, and the one before it goes on"),
        "{said}"
    );
    let said = refusal("      x = 1 +\nc$fb kill a\n     & 2\n", Language::FixedFortran);
    assert!(said.contains("f:2:1: error: a directive is a statement"), "{said}");
}

#[test]
fn fortran_gets_a_block_that_declares_nothing_outside_of_it() {
    let source = "program x\nreal(8) :: a(3), b(3)\n!$FB Create A, a on 'blas'\n!$fb call axpy(2d0, A, &\n!$fb & out(b), 'it''s', b(1:2)) status i\nend program\n";
    let made = fortran(source, Language::Fortran);
    assert!(made.contains("# 3 \"f.f90\"\nblock\n# 3 \"f.f90\"\nuse forebay_directives\n"), "{made}");
    assert!(made.contains("call fbd_begin('f.f90', 3, 'Create A, a on ''blas''')\n"), "{made}");
    assert!(made.contains("call fbd_create('a', a, server='blas')\n"), "{made}");
    assert!(made.contains("call fbd_call('axpy', [fb_arg :: fb_in(2d0), fbd_arg('a'), fb_inout(b), fb_in('it''s'), fb_in(b(1:2))])\n"), "{made}");
    assert!(
        made.contains("i = fbd_status()\n# 4 \"f.f90\"\nend block\n# 6 \"f.f90\"\nend program\n"),
        "{made}"
    );
    let made = fortran("!$fb create t, f64, n, m\n!$fb put t, x(1:n, 1:m)\n", Language::Fortran);
    assert!(made.contains("call fbd_create_room('t', FB_F64, [integer(fbd_long) :: n, m])\n"), "{made}");
    assert!(
        made.contains(
            "if (fbd_well()) call fb_ref_put(fbd_array, x(1:n, 1:m), stat=fbd_stat, errmsg=fbd_said)\n"
        ),
        "{made}"
    );
    let said = refusal("!$fb create a, a, n\n", Language::Fortran);
    assert!(
        said.contains(
            "f:1:16: error: an array of Fortran has its own extents; of a part write the section: a(1:n)"
        ),
        "{said}"
    );
    assert!(refusal("!$fb create a, a order F\n", Language::Fortran).contains("leave the order out"));
}

#[test]
fn lines_of_fortran_are_no_longer_than_its_forms_allow() {
    let long = format!("c$fb call f({})\n", (0..60).map(|i| format!("x{i}")).collect::<Vec<_>>().join(", "));
    let fixed = fortran(&long, Language::FixedFortran);
    let code = |made: &str| -> Vec<String> {
        made.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect()
    };
    assert!(
        code(&fixed).iter().all(|l| l.len() <= 72 && (l.starts_with("      ") || l.starts_with("     &"))),
        "{fixed}"
    );
    let free = fortran(&long.replace("c$", "!$"), Language::Fortran);
    assert!(code(&free).iter().all(|l| l.len() <= 132), "{free}");
}

#[test]
fn the_language_of_a_file_is_told_by_its_end() {
    let of = |name| Language::of(name);
    assert_eq!(of("a/b.c/x.cpp"), Some(Language::Cplusplus));
    assert_eq!(
        (of("x.F"), of("x.F90"), of("x.o")),
        (Some(Language::FixedFortran), Some(Language::Fortran), None)
    );
}

/// Pieces of sources, more likely than letters to meet a case.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("//fb "),
        Just("!$fb "),
        Just("c$fb "),
        Just("\n"),
        Just("create "),
        Just("put "),
        Just("call f("),
        Just("A"),
        Just(", "),
        Just(")"),
        Just("("),
        Just("\""),
        Just("'"),
        Just("\\"),
        Just("/*"),
        Just("*/"),
        Just("#include <x>\n"),
        Just("#if 0\n"),
        Just(" status e"),
        Just(" order F"),
        Just("local"),
        Just("end"),
        Just("&"),
        Just("R\"("),
        Just(";"),
        Just("é"),
        Just("\r\n"),
        Just("1'0"),
        Just("f64"),
        Just("extern "),
        Just("array("),
        Just("out("),
        Just(".true."),
        Just("\u{0}"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|all| all.concat())
}

proptest! {
    #[test]
    fn no_source_makes_the_translator_panic(source in pieces(), noise in ".{0,40}") {
        for language in [Language::C, Language::Cplusplus, Language::Fortran, Language::FixedFortran] {
            for text in [&source, &noise, &format!("//fb {noise}\n"), &format!("!$fb {noise}\n")] {
                if let Ok(Some(made)) = translate(text, "f", language) {
                    prop_assert!(!made.is_empty());
                }
            }
        }
    }

    #[test]
    fn c_keeps_the_lines_behind_the_directives(source in pieces()) {
        if let Ok(Some(made)) = translate(&source, "f", Language::C) {
            let behind = made.rsplit_once("#include <forebay/directives.h>\n#line ").map(|(_, b)| b).unwrap_or_default();
            let (line, rest) = behind.split_once(" \"f\"\n").unwrap_or(("1", ""));
            let skipped = line.parse::<usize>().unwrap_or(1) - 1;
            prop_assert_eq!(rest.matches('\n').count() + skipped, source.matches('\n').count());
        }
    }
}
