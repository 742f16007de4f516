//! `forebay cc`: compiles programs with directives.
//!
//! ```text
//! words -> sources among them (Language::of) -> translated into a directory of its own -> the compiler, with all other words
//! ```

use clap::Args;
use forebay::{Error, Result};
use forebay_directives::{Language, translate};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::{installed, out::Out};

/// Compile programs in C, C++ and Fortran in which comments say what a server is to do.
///
/// A comment such as `//fb put A, a` (in Fortran `!$fb put A, a`) becomes a call of the library; all other words go to the
/// compiler: $CC or cc, $CXX or c++, $FC or gfortran, by the ends of the files. A source without directives is compiled as it is.
#[derive(Args)]
#[command(after_help = HELP, override_usage = "forebay cc [--print] [--keep] [--lang LANGUAGE] [COMPILER OPTIONS] FILE...")]
pub(super) struct Cc {
    /// What the compiler takes, with the sources among it; our own are
    /// --print (print the translated sources and compile nothing), --keep (leave them beside the sources, as NAME.fb.c) and
    /// --lang c|c++|fortran (which compiler links, where no source says it).
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    words: Vec<OsString>,
}

const HELP: &str = "In a program:\n  double a[100], c[100];\n  //fb create A, a\n  //fb put A, a\n  //fb call scale(2.0, A)\n  //fb get A, c\n\n\
    Example:\n  make CC='forebay cc' FC='forebay cc --lang fortran'\n  forebay cc --print solve.c\n  forebay cc -O2 solve.c -lm -o solve";

/// The words, sorted.
#[derive(Default)]
struct Given {
    print: bool,
    keep: bool,
    lang: Option<Language>,
    sources: Vec<(PathBuf, Language)>,
    /// All for the compiler, sources too.
    words: Vec<OsString>,
    links: bool,
}

/// Options whose next word is a value, which is no source even if it looks like one.
const WITH_VALUE: [&str; 14] = [
    "-o",
    "-I",
    "-L",
    "-D",
    "-U",
    "-J",
    "-include",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-MF",
    "-MT",
    "-MQ",
    "-Xlinker",
];
/// Options with which nothing is linked.
const NO_LINK: [&str; 6] = ["-c", "-S", "-E", "-fsyntax-only", "-M", "-MM"];

impl Cc {
    pub(super) fn run(&self, out: &Out) -> Result<()> {
        let given = Given::sort(&self.words)?;
        let mut made = Vec::new();
        let mut faults = 0;
        for (file, language) in &given.sources {
            let shown = file.to_string_lossy().into_owned();
            let source = SourceText::read(file)?;
            match translate(&source.text, &shown, language_of(&given, *language)) {
                Ok(Some(text)) => made.push((file.clone(), *language, source.bytes(text))),
                Ok(None) if given.print => {
                    made.push((file.clone(), *language, source.bytes(source.text.clone())))
                }
                Ok(None) => (),
                Err(all) => {
                    faults += all.len();
                    all.iter().for_each(|fault| eprintln!("{fault}"));
                }
            }
        }
        if faults > 0 {
            std::process::exit(1);
        }
        if given.print {
            return made
                .iter()
                .try_for_each(|(.., text)| out.line(String::from_utf8_lossy(text).trim_end_matches('\n')));
        }
        if given.keep {
            for (file, _, text) in &made {
                let place = kept(file);
                std::fs::write(&place, text)
                    .map_err(|e| Error::io(format!("cannot write {}", place.display()), e))?;
            }
        }
        compile(&given, &made)
    }
}

/// The form of a Fortran source, which an option may say.
fn language_of(given: &Given, language: Language) -> Language {
    let said = |option: &str| given.words.iter().any(|word| word == option);
    match language.is_fortran() {
        true if said("-ffixed-form") || said("-fixed") => Language::FixedFortran,
        true if said("-ffree-form") || said("-free") => Language::Fortran,
        _ => language,
    }
}

impl Given {
    fn sort(words: &[OsString]) -> Result<Given> {
        let mut given = Given { links: true, ..Given::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            match &*text {
                "--print" => given.print = true,
                "--keep" => given.keep = true,
                "--lang" => given.lang = Some(named(words.next().map(OsString::as_os_str))?),
                "-x" => {
                    let what = "the end of a file says its language here; give it the end .c, .cpp, .f or .f90, and leave -x out";
                    return Err(Error::bad(what));
                }
                option if WITH_VALUE.contains(&option) => {
                    given.words.push(word.clone());
                    given.words.extend(words.next().cloned());
                }
                option if option.starts_with('-') => {
                    given.links &= !NO_LINK.contains(&option);
                    given.words.push(word.clone());
                }
                file => {
                    given.sources.extend(Language::of(file).map(|language| (PathBuf::from(word), language)));
                    given.words.push(word.clone());
                }
            }
        }
        Ok(given)
    }

    /// The compiler, by what there is to compile.
    fn compiler(&self) -> Result<(Language, String)> {
        let of = |language: Language| match language {
            Language::FixedFortran => Language::Fortran,
            other => other,
        };
        let has = |language| self.sources.iter().any(|(_, l)| of(*l) == language);
        // A compiler of Fortran takes C as well; one of C++ would take C for C++.
        let found = match (has(Language::C), has(Language::Cplusplus), has(Language::Fortran)) {
            (_, true, true) | (true, true, _) => {
                return Err(Error::bad(
                    "sources of C++ and of another language go to two compilers; compile each with -c, then link the .o files",
                ));
            }
            (_, _, true) => Language::Fortran,
            (_, true, _) => Language::Cplusplus,
            (true, ..) => Language::C,
            _ => self.lang.unwrap_or(Language::C),
        };
        let (variable, usual) = match found {
            Language::C => ("CC", "cc"),
            Language::Cplusplus => ("CXX", "c++"),
            _ => ("FC", "gfortran"),
        };
        let named = std::env::var(variable).ok().filter(|name| !name.trim().is_empty());
        // In a makefile that calls this by such a variable it names this command itself.
        let is_this = |name: &String| {
            name.split_whitespace().next().is_some_and(|word| word.rsplit('/').next() == Some("forebay"))
        };
        let named = named.filter(|name| !is_this(name));
        Ok((found, named.unwrap_or_else(|| usual.to_owned())))
    }
}

fn named(language: Option<&OsStr>) -> Result<Language> {
    match language.and_then(OsStr::to_str) {
        Some("c") => Ok(Language::C),
        Some("c++") => Ok(Language::Cplusplus),
        Some("fortran") => Ok(Language::Fortran),
        other => Err(Error::bad(format!(
            "--lang {}: write c, c++ or fortran",
            other.unwrap_or("without a language")
        ))),
    }
}

/// `solve.c` -> `solve.fb.c`
fn kept(file: &Path) -> PathBuf {
    let end = file.extension().map(|end| end.to_string_lossy().into_owned()).unwrap_or_default();
    file.with_extension(format!("fb.{end}"))
}

/// The text of a source as it was read. Old ones have letters of Latin-1 in their comments: then each byte is a letter.
struct SourceText {
    text: String,
    is_utf8: bool,
}

impl SourceText {
    fn read(file: &Path) -> Result<SourceText> {
        let bytes =
            std::fs::read(file).map_err(|e| Error::io(format!("cannot read {}", file.display()), e))?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => SourceText { text, is_utf8: true },
            Err(e) => SourceText {
                text: e.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
                is_utf8: false,
            },
        })
    }

    /// What was made of it, in its own bytes.
    fn bytes(&self, made: String) -> Vec<u8> {
        if self.is_utf8 {
            return made.into_bytes();
        }
        made.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap_or(b'?')).collect()
    }
}

/// A directory for translated sources, which goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let base = std::env::temp_dir();
        for number in 0..1000 {
            let path = base.join(format!("forebay-cc-{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => (),
                Err(e) => return Err(Error::io(format!("cannot make {}", path.display()), e)),
            }
        }
        Err(Error::bad(format!("{} is full of directories forebay-cc-...; remove them", base.display())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of it is in nobody's way.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn compile(given: &Given, made: &[(PathBuf, Language, Vec<u8>)]) -> Result<()> {
    let (language, compiler) = given.compiler()?;
    // They end the compiler, which is told of them, too; then the folder goes.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())
            .map_err(|e| Error::io("cannot set up the handling of signals", e))?;
    }
    let folder = Folder::new()?;
    let mut words = Vec::new();
    let mut places = Vec::new();
    for (number, (file, of, text)) in made.iter().enumerate() {
        // Files of one name may come from two directories, and an object file is called by its source.
        let inner = folder.0.join(number.to_string());
        let place = inner.join(file.file_name().unwrap_or_default());
        std::fs::create_dir(&inner)
            .and_then(|()| std::fs::write(&place, text))
            .map_err(|e| Error::io(format!("cannot write {}", place.display()), e))?;
        // What it includes lies beside the source.
        let beside = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        words.push(if of.is_fortran() { "-I".into() } else { OsString::from("-iquote") });
        words.push(beside.into());
        places.push((file.as_os_str(), place));
    }
    for word in &given.words {
        words.push(
            places
                .iter()
                .find(|(file, _)| file == word)
                .map_or_else(|| word.clone(), |(_, place)| place.into()),
        );
    }
    let has_fortran = made.iter().any(|(_, of, _)| of.is_fortran());
    words.extend(ours(given, language, has_fortran)?);
    let mut command = compiler.split_whitespace();
    let program = command.next().unwrap_or("cc");
    let ran = Command::new(program).args(command).args(&words).status();
    let status = ran.map_err(|e| {
        Error::io(format!("cannot run {program:?}; install it, or name your compiler in CC, CXX or FC"), e)
    })?;
    name_sources(given, &places);
    drop(folder);
    match status.code() {
        Some(0) => Ok(()),
        // The compiler has said why.
        Some(code) => std::process::exit(code),
        None => Err(Error::bad(format!("{program} ended with {status}"))),
    }
}

/// In a list of dependences for make (-MD and its like) stands the translated file, which is gone then: the source
/// takes its place.
fn name_sources(given: &Given, places: &[(&OsStr, PathBuf)]) {
    let value_of = |option: &str| {
        let at = given.words.iter().position(|word| word == option)?;
        given.words.get(at + 1).map(PathBuf::from)
    };
    if !given.words.iter().any(|word| word.to_string_lossy().starts_with("-M")) {
        return;
    }
    let named = value_of("-MF").or_else(|| value_of("-o").map(|made| made.with_extension("d")));
    for (file, place) in places {
        let beside = Path::new(file).file_name().map(|name| Path::new(name).with_extension("d"));
        let Some(list) = named.clone().or(beside) else { continue };
        // Without a list, or with one that is no text, there is nothing to set right.
        let Ok(text) = std::fs::read_to_string(&list) else { continue };
        let source = file.to_string_lossy().replace(' ', "\\ ");
        let _ = std::fs::write(&list, text.replace(&*place.to_string_lossy(), &source));
    }
}

/// What translated sources want to be compiled and linked with.
fn ours(given: &Given, language: Language, has_fortran: bool) -> Result<Vec<OsString>> {
    // For programs that rather write #ifdef than `local`.
    let mut words = vec![OsString::from("-DFOREBAY_CC=1")];
    let beside = installed::beside_command();
    let mut is_there = true;
    if let Some(beside) = &beside {
        words.extend(beside.includes());
        let modules = beside.prefix().join("lib/forebay/fortran");
        is_there = modules.join("forebay_directives.mod").exists();
        if has_fortran && !is_there {
            let build = beside.prefix().join("share/forebay/fortran/build");
            return Err(Error::bad(format!(
                "the Fortran module is not made for a compiler here; run {} once, with FC=... for another one than gfortran",
                build.display()
            )));
        }
        if language == Language::Fortran {
            words.extend([OsString::from("-I"), modules.into()]);
        }
    }
    if given.links {
        words.extend(beside.iter().flat_map(installed::Installed::links));
        if language == Language::Fortran && is_there {
            words.push("-lforebay_fortran".into());
        }
        words.extend(["-lforebay".into(), "-lpthread".into()]);
        if given.words.iter().any(|word| word == "-static") {
            words.extend(["-ldl".into(), "-lm".into()]);
        }
    }
    Ok(words)
}
