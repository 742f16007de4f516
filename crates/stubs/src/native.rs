//! C with the library's own symbols: for each routine a table of parameters, a function of extents, and a stub of a
//! line over both. What they have in common stands in `runtime.c`, which is put before them.

use std::fmt::Write;

use forebay_idl::{
    Arg, Array, Binary, Convention, Expr, Function, Hidden, Kind, Library, Returned, Routine, Source, Type,
    Unary,
};
use forebay_types::{DType, Error, Order, Result, Way};

/// Arithmetic of extents.
pub(crate) const INTEGERS: &str = include_str!("integers.h");

/// One C file with the stubs of all routines of a library. `file` is where the library is described; `also` are patterns of
/// further symbols, such as `%s` and `%s__`.
pub fn native(library: &Library, file: &str, also: &[String]) -> Result<String> {
    let is_good = |pattern: &String| {
        let rest = pattern.replacen("%s", "", 1);
        rest != *pattern && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if let Some(bad) = also.iter().find(|pattern| !is_good(pattern)) {
        return Err(Error::bad(format!(
            "{bad:?} is no pattern of symbols; write for example %s or %s__, where %s is the routine's name"
        )));
    }
    let mut c = format!(
        "/* Stubs of {file}, made by `forebay stubs --native`. Build them with\n   \
         cc -shared -fPIC -O2 -fno-builtin THIS.c -lforebay -ldl -lpthread -o libNAME.so */\n"
    );
    c.push_str(&include_str!("runtime.c").replace("/* (integers) */\n", INTEGERS));
    let _ = writeln!(c, "static const int fbs_only_changed = {};", u8::from(library.settings.only_changed));
    let (routines, left_out): (Vec<&Routine>, Vec<&Routine>) = library
        .routines
        .iter()
        .filter(|r| r.chain.is_none())
        .partition(|r| !has_fortran_text(r) && !has_files(r));
    for routine in left_out {
        let why = match has_files(routine) {
            true => "its files travel by the functions of `forebay stubs` without --native",
            false => "a stub cannot tell how long its text is",
        };
        let _ = writeln!(c, "/* {}: left out, for {why} */", routine.name);
    }
    let symbols = || routines.iter().copied();
    for routine in symbols() {
        stub(&mut c, routine);
        let mut symbols = vec![routine.symbol.clone()];
        for pattern in also {
            let symbol = pattern.replacen("%s", &routine.name, 1);
            if !symbols.contains(&symbol) {
                let of = &routine.symbol;
                let _ = writeln!(c, "extern __typeof__({of}) {symbol} __attribute__((alias(\"{of}\")));");
                symbols.push(symbol);
            }
        }
    }
    c.push_str(
        "\n__attribute__((destructor)) static void fbs_end(void)\n{\n    static fbs_routine *const all[] = {",
    );
    for routine in symbols() {
        let _ = write!(c, " &d_{},", routine.name);
    }
    c.push_str(" NULL };\n    fbs_report(all, sizeof all / sizeof all[0] - 1);\n}\n");
    Ok(c)
}

/// Whether it takes a text of any length, which a program in C that calls it may not say.
fn has_fortran_text(r: &Routine) -> bool {
    r.convention == Convention::Fortran && r.args.iter().any(|arg| matches!(arg.kind, Kind::Str))
}

fn has_files(r: &Routine) -> bool {
    r.args.iter().any(|arg| matches!(arg.kind, Kind::File(_)))
}

fn stub(c: &mut String, r: &Routine) {
    let _ = writeln!(c, "\n/* {} */", r.plain.signature);
    let extents = extents(c, r);
    let cost = cost(c, r);
    parameters(c, r);
    let _ = writeln!(
        c,
        "static fbs_routine d_{0} = {{ \"{0}\", \"{1}\", \"{2}\", \"{3}\", p_{0}, sizeof p_{0} / sizeof p_{0}[0], {extents}, {cost}, NULL, 0, 0, 0 }};",
        r.name,
        r.native.signature.name(),
        r.native.signature,
        r.symbol
    );
    let result = r.returned.as_ref().filter(|r| !r.is_by_pointer());
    let of = result.map_or("void".into(), returned_type);
    let (mut taken, mut passed): (Vec<String>, Vec<String>) =
        r.args.iter().enumerate().map(|(i, a)| (declared(&type_of(a), i), format!("a{i}"))).unzip();
    let mut types: Vec<String> = r.args.iter().map(type_of).collect();
    if r.returned.as_ref().is_some_and(Returned::is_by_pointer) {
        taken.insert(0, "void *result".into());
        types.insert(0, "void *".into());
        passed.insert(0, "result".into());
    }
    hidden(r, &mut types, &mut passed);
    let all = if taken.is_empty() { "void".into() } else { taken.join(", ") };
    let addresses: Vec<String> = r
        .args
        .iter()
        .enumerate()
        .map(|(i, a)| if a.by_value { format!("&a{i}") } else { format!("a{i}") })
        .collect();
    let _ = writeln!(c, "{of} {}({all})\n{{", r.symbol);
    let addresses = if addresses.is_empty() { "NULL".into() } else { addresses.join(", ") };
    let to = match (&r.returned, result) {
        (None, _) => "NULL",
        (Some(_), None) => "result",
        (Some(_), Some(_)) => {
            let _ = writeln!(c, "    {of} result;");
            "&result"
        }
    };
    let types = if types.is_empty() { "void".into() } else { types.join(", ") };
    let local = format!("(({of} (*)({types}))d_{}.local)({})", r.name, passed.join(", "));
    let remote = format!("fbs(&d_{}, (void *[]){{ {addresses} }}, {to})", r.name);
    let _ = match result {
        Some(_) => writeln!(c, "    return {remote} ? result : {local};\n}}"),
        None => writeln!(c, "    if (!{remote}) {local};\n}}"),
    };
}

/// The lengths of characters that the library is passed when it is called from here.
fn hidden(r: &Routine, types: &mut Vec<String>, passed: &mut Vec<String>) {
    let is_char = |a: &Arg| a.kind.scalar_type() == Some(Type::Char);
    let before = passed.len() - r.args.len();
    let chars: Vec<usize> = (0..r.args.len()).filter(|i| is_char(&r.args[*i])).collect();
    match r.hidden {
        Hidden::None => (),
        Hidden::End => {
            types.extend(chars.iter().map(|_| "size_t".to_owned()));
            passed.extend(chars.iter().map(|_| "1".to_owned()));
        }
        Hidden::Next => {
            for at in chars.iter().rev() {
                types.insert(before + at + 1, "size_t".into());
                passed.insert(before + at + 1, "1".into());
            }
        }
    }
}

/// An argument as C declares it.
fn declared(kind: &str, number: usize) -> String {
    match kind.ends_with('*') {
        true => format!("{kind}a{number}"),
        false => format!("{kind} a{number}"),
    }
}

fn type_of(arg: &Arg) -> String {
    if !arg.by_value {
        return "void *".into();
    }
    arg.kind.scalar_type().map_or("size_t", |of| number(of, Convention::C)).into()
}

fn returned_type(r: &Returned) -> String {
    // A logical of Fortran is an int; that of C a byte.
    number(r.of, Convention::Fortran).into()
}

/// The C type of a scalar.
pub(crate) fn number(of: Type, convention: Convention) -> &'static str {
    match of {
        Type::Char => "unsigned char",
        Type::Bool if convention == Convention::Fortran => "int",
        Type::Bool => "unsigned char",
        Type::Number(d) => dtype(d),
    }
}

/// The C type of an element.
pub(crate) fn dtype(d: DType) -> &'static str {
    match d {
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int32_t",
        DType::I64 => "int64_t",
        DType::U8 | DType::Bool | DType::Str | DType::Bytes => "uint8_t",
        DType::U16 | DType::F16 => "uint16_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::C64 => "float _Complex",
        DType::C128 => "double _Complex",
    }
}

/// The way of a parameter as the C library calls it.
pub(crate) fn direction(way: Way) -> &'static str {
    match way {
        Way::In => "FB_IN",
        Way::Out => "FB_OUT",
        Way::InOut => "FB_INOUT",
    }
}

/// The table of parameters: one for each of the published signature.
fn parameters(c: &mut String, r: &Routine) {
    let _ = write!(c, "static const fbs_param p_{}[] = {{", r.name);
    for (param, source) in r.native.signature.params().iter().zip(&r.native.sources) {
        let mut array = None;
        let mut logical = false;
        let mut status = false;
        let mut query = false;
        let (from, at) = match source {
            Source::Arg(at) => {
                match &r.args[*at].kind {
                    Kind::Array(a) => array = Some(a),
                    Kind::Scalar(s) => {
                        logical = s.of == Type::Bool && r.convention == Convention::Fortran;
                        status = s.status.is_some();
                    }
                    Kind::Query(..) => query = true,
                    _ => (),
                }
                ("FBS_ARGUMENT", Some(*at))
            }
            Source::First(at) => ("FBS_FIRST", Some(*at)),
            Source::Result => {
                let of = r.returned.as_ref().map(|r| r.of);
                status = r.returned.as_ref().is_some_and(|r| r.status.is_some());
                logical = of == Some(Type::Bool) && r.convention == Convention::Fortran;
                ("FBS_RESULT", None)
            }
            Source::XerblaInfo => ("FBS_XERBLA_INFO", None),
            Source::XerblaName => ("FBS_XERBLA_NAME", None),
        };
        let way = direction(param.way);
        let place = |at: Option<usize>| at.map_or("-1".into(), |at| at.to_string());
        let of = |pick: fn(&Array) -> Option<usize>| array.and_then(pick);
        let _ = write!(
            c,
            "\n    {{ {from}, {way}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {} }},",
            param.dtype as u8,
            u8::from(array.is_some()),
            u8::from(array.is_some_and(|a| a.order == Order::F)),
            array.map_or(0, |a| a.extents.len()),
            u8::from(logical),
            u8::from(status),
            u8::from(query),
            place(at),
            place(of(|a| a.ld)),
            place(of(|a| a.inc)),
            place(of(|a| a.tri)),
            of(|a| a.ld).map_or(0, |at| integer(&r.args[at]) as u8),
            of(|a| a.inc).map_or(0, |at| integer(&r.args[at]) as u8),
        );
    }
    if r.native.sources.is_empty() {
        c.push_str(" { 0 }");
    }
    c.push_str("\n};\n");
}

/// The dtype of an integer argument.
fn integer(arg: &Arg) -> DType {
    arg.kind.scalar_type().map_or(DType::I32, Type::dtype)
}

/// Writes the function of all extents; gives its name.
fn extents(c: &mut String, r: &Routine) -> String {
    let of_arrays: Vec<&Expr> = r
        .native
        .sources
        .iter()
        .filter_map(|source| match source {
            Source::Arg(at) => match &r.args[*at].kind {
                Kind::Array(a) => Some(&a.extents),
                _ => None,
            },
            _ => None,
        })
        .flatten()
        .collect();
    if of_arrays.is_empty() {
        return "NULL".into();
    }
    let _ = writeln!(c, "static void e_{}(void *const *a, int64_t *e)\n{{\n    (void)a;", r.name);
    let value = |at| address(r, at);
    for (i, e) in of_arrays.iter().enumerate() {
        let _ = writeln!(c, "    e[{i}] = {};", expression(e, &value));
    }
    c.push_str("}\n");
    format!("e_{}", r.name)
}

fn cost(c: &mut String, r: &Routine) -> String {
    let Some(cost) = &r.cost else { return "NULL".into() };
    let _ = writeln!(
        c,
        "static int64_t c_{}(void *const *a)\n{{\n    (void)a;\n    return {};\n}}",
        r.name,
        expression(cost, &|at| address(r, at))
    );
    format!("c_{}", r.name)
}

/// The value of an argument whose address is in `a`.
fn address(r: &Routine, at: usize) -> String {
    let arg = &r.args[at];
    let of = match &arg.kind {
        Kind::Scalar(s) => s.of,
        _ => Type::Number(integer(arg)),
    };
    if of == Type::Bool && r.convention == Convention::Fortran {
        return format!("(*(const int *)a[{at}] != 0)");
    }
    format!("fbs_integer((fb_dtype){}, a[{at}])", of.dtype() as u8)
}

/// An expression in C; `value` gives that of an argument.
pub(crate) fn expression(e: &Expr, value: &impl Fn(usize) -> String) -> String {
    let of = |e: &Expr| expression(e, value);
    match e {
        Expr::Number(n) if *n == i64::MIN => "INT64_MIN".into(),
        Expr::Number(n) => format!("INT64_C({n})"),
        Expr::Value(at) => value(*at),
        Expr::Unary(Unary::Minus, x) => format!("fbs_subtract(0, {})", of(x)),
        Expr::Unary(Unary::Not, x) => format!("!{}", of(x)),
        Expr::Binary(what, xy) => {
            let (x, y) = (of(&xy.0), of(&xy.1));
            let function = match what {
                Binary::Add => "fbs_add",
                Binary::Subtract => "fbs_subtract",
                Binary::Multiply => "fbs_multiply",
                Binary::Divide => "fbs_divide",
                Binary::And => return format!("({x} && {y})"),
                Binary::Or => return format!("({x} || {y})"),
                _ => return format!("({x} {} {y})", what.sign()),
            };
            format!("{function}({x}, {y})")
        }
        Expr::Call(Function::Abs, x) => format!("fbs_abs({})", x.first().map_or("0".into(), of)),
        Expr::Call(what, all) => {
            let name = if *what == Function::Max { "fbs_max" } else { "fbs_min" };
            all.iter().map(of).reduce(|x, y| format!("{name}({x}, {y})")).unwrap_or_else(|| "0".into())
        }
        Expr::If(parts) => format!("({} ? {} : {})", of(&parts.0), of(&parts.1), of(&parts.2)),
        Expr::OneOf(x, bytes) => {
            let listed: String = bytes.iter().map(|b| format!("\\x{b:02x}\"\"")).collect();
            format!("fbs_one_of({}, \"{listed}\", {})", of(x), bytes.len())
        }
    }
}
