//! `forebay cc`: compiles programs with directives.
//!
//! ```text
//! words, also those of files (response) -> sources among them (Language::of) -> translated into a directory of its own
//!     -> the compiler (child), with all other words
//! ```

mod child;
mod response;

use clap::Args;
use forebay::{Error, Result};
use forebay_directives::{Language, translate, unused, warnings};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::child::Signals;
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
    /// Some of them stood in files, since they are many.
    are_many: bool,
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
/// Values of -x, which other options begin with, too.
const LANGUAGES: [&str; 10] = [
    "c",
    "c++",
    "f77",
    "f95",
    "f77-cpp-input",
    "f95-cpp-input",
    "cpp-output",
    "c++-cpp-output",
    "c-header",
    "none",
];
/// The first line of what --keep leaves.
const C_MARK: &str = "/* Made by forebay cc; changes here are lost. */\n";
const FORTRAN_MARK: &str = "! Made by forebay cc; changes here are lost.\n";
/// Options with which nothing is linked.
const NO_LINK: [&str; 6] = ["-c", "-S", "-E", "-fsyntax-only", "-M", "-MM"];

impl Cc {
    pub(super) fn run(&self, out: &Out) -> Result<()> {
        let (words, are_many) = response::expanded(&self.words)?;
        let given = Given { are_many, ..Given::sort(&words)? };
        let mut made = Vec::new();
        let mut faults = 0;
        let mut texts = Vec::new();
        for (file, language) in &given.sources {
            let shown = file.to_string_lossy().into_owned();
            let source = SourceText::read(file)?;
            let language_there = language_of(&given, *language);
            warnings(&source.text, &shown, language_there).iter().for_each(|warning| eprintln!("{warning}"));
            match translate(&source.text, &shown, language_there) {
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
            texts.push((source.text, shown, language_there));
        }
        if given.is_whole() {
            let texts: Vec<_> = texts.iter().map(|(text, file, of)| (&text[..], &file[..], *of)).collect();
            unused(&texts).iter().for_each(|warning| eprintln!("{warning}"));
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
            keep(&made)?;
        }
        compile(&given, &made)
    }
}

/// A source, and what was made of it.
type Made = (PathBuf, Language, Vec<u8>);

/// Leaves what was made beside the sources. What somebody else has written there stays.
fn keep(made: &[Made]) -> Result<()> {
    let marked = |(file, language, text): &Made| {
        let mark = if language.is_fortran() { FORTRAN_MARK } else { C_MARK };
        (kept(file), [mark.as_bytes(), text].concat(), mark)
    };
    let all: Vec<_> = made.iter().map(marked).collect();
    for (place, text, mark) in &all {
        let is_ours = |there: &[u8]| there == *text || there.starts_with(mark.as_bytes());
        match std::fs::read(place) {
            Ok(there) if !is_ours(&there) => {
                return Err(Error::bad(format!(
                    "{} is there and was not made by forebay cc; move it away, or leave --keep out",
                    place.display()
                )));
            }
            // One that cannot be read cannot be written either, or is not there.
            _ => (),
        }
    }
    for (place, text, _) in &all {
        std::fs::write(place, text).map_err(|e| Error::io(format!("cannot write {}", place.display()), e))?;
    }
    Ok(())
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
    /// Whether these are all sources of a program: nothing that was compiled before may use what they name.
    fn is_whole(&self) -> bool {
        let is_compiled = |word: &OsString| {
            let end = Path::new(word).extension().and_then(OsStr::to_str);
            end.is_some_and(|end| ["o", "a", "so"].contains(&end))
        };
        self.links && !self.print && !self.words.iter().any(is_compiled)
    }

    fn sort(words: &[OsString]) -> Result<Given> {
        let mut given = Given { links: true, ..Given::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            match &*text {
                "--print" => given.print = true,
                "--keep" => given.keep = true,
                "--lang" => given.lang = Some(named(words.next().map(OsString::as_os_str))?),
                option
                    if option
                        .strip_prefix("-x")
                        .is_some_and(|of| of.is_empty() || LANGUAGES.contains(&of)) =>
                {
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
        // What is put before it would make a letter of the mark that an editor has left there.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").map(<[u8]>::to_vec).unwrap_or(bytes);
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

/// Refuses standards that are older than what directives become.
fn check_standard(given: &Given, compiler: &str, made: &[Made]) -> Result<()> {
    let of_compiler = compiler.split_whitespace().map(Into::into);
    let words = of_compiler.chain(given.words.iter().map(|word| word.to_string_lossy()));
    let named: Vec<_> = words.filter(|word| word.starts_with("-std=") || word == "-ansi").collect();
    let Some(named) = named.last() else { return Ok(()) };
    let standard = named.strip_prefix("-std=").unwrap_or("ansi");
    for (file, language, _) in made {
        let (old, least): (&[&str], _) = match language {
            Language::C => {
                (&["ansi", "c89", "c90", "gnu89", "gnu90", "iso9899:1990", "iso9899:199409"], "-std=gnu99")
            }
            Language::Cplusplus => (&["ansi", "c++98", "c++03", "gnu++98", "gnu++03"], "-std=gnu++11"),
            _ => (&["f95", "f2003"], "-std=f2008"),
        };
        if old.contains(&standard) {
            return Err(Error::bad(format!(
                "{named}: what becomes of the directives in {} is of a later standard; take {least} or a later one",
                file.display()
            )));
        }
    }
    Ok(())
}

fn compile(given: &Given, made: &[Made]) -> Result<()> {
    let (language, compiler) = given.compiler()?;
    check_standard(given, &compiler, made)?;
    let signals = Signals::catch()?;
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
    if given.are_many {
        let place = folder.0.join("words");
        std::fs::write(&place, response::written(&words))
            .map_err(|e| Error::io(format!("cannot write {}", place.display()), e))?;
        words = vec![OsString::from(format!("@{}", place.display()))];
    }
    let ran = signals.run(Command::new(program).args(command).args(&words));
    let status = ran.map_err(|e| {
        Error::io(format!("cannot run {program:?}; install it, or name your compiler in CC, CXX or FC"), e)
    });
    name_sources(given, &places);
    drop(folder);
    signals.obey();
    let status = status?;
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
