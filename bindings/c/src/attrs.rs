//! Attributes of runs, data sets and tables.

use std::ffi::{c_char, c_int};

use forebay::{Code, Error, Result, Run, Target};
use serde_json::{Map, Value};

use crate::fault::{fb_status, status};
use crate::kinds::fb_run;
use crate::{given, handle, memory};

/// Set number that stands for the table of that name.
const TABLE: i64 = i64::MIN + 1;

/// Whose attributes: of the run without a name, of a table with FB_TABLE, else of a data set.
fn target(name: *const c_char, set: i64) -> Result<Target> {
    Ok(match given::optional_text(name, "name")? {
        None => Target::Run,
        Some(name) if set == TABLE => Target::Table { name: name.to_owned() },
        Some(name) => Target::DataSet { name: name.to_owned(), set },
    })
}

fn set_one(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    key: *const c_char,
    value: Result<Value>,
) -> Result<()> {
    let object = handle::get(run)?;
    let key = given::text(key, "key")?;
    let one = Map::from_iter([(key.to_owned(), value?)]);
    object.run.set_attrs(&target(name, set)?, one)
}

fn get_one(run: &Run, name: *const c_char, set: i64, key: &str) -> Result<Value> {
    let mut all = run.attrs(&target(name, set)?)?;
    all.remove(key).ok_or_else(|| {
        let known: Vec<&String> = all.keys().collect();
        Error::new(Code::NotFound, format!("there is no attribute {key:?}; there are {known:?}"))
    })
}

fn is_not(key: &str, value: &Value, what: &str) -> Error {
    Error::bad(format!("the attribute {key:?} is {value}, not {what}; read it as what it is"))
}

/// Sets an attribute to a real number. The attributes are those of the run (`name` NULL), of the table
/// `name` (`set` FB_TABLE), or of a data set.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_set_f64(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    key: *const c_char,
    value: f64,
) -> fb_status {
    status(|| set_one(run, name, set, key, Ok(forebay::real_attribute(value))))
}

/// Sets an attribute to an integer.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_set_i64(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    key: *const c_char,
    value: i64,
) -> fb_status {
    status(|| set_one(run, name, set, key, Ok(value.into())))
}

/// Sets an attribute to a text.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_set_str(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    key: *const c_char,
    value: *const c_char,
) -> fb_status {
    status(|| set_one(run, name, set, key, given::text(value, "value").map(Value::from)))
}

/// Sets several attributes of any kind: a JSON object. Null values delete; what is not named stays.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_set_json(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    json: *const c_char,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        object.run.set_attrs(&target(name, set)?, forebay::attributes(given::text(json, "json")?)?)
    })
}

/// Reads an attribute that is a number.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_get_f64(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    key: *const c_char,
    value: *mut f64,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (key, out) = (given::text(key, "key")?, given::out(value, "value")?);
        let found = get_one(&object.run, name, set, key)?;
        out.set(forebay::number_of_attribute(&found).ok_or_else(|| is_not(key, &found, "a number"))?);
        Ok(())
    })
}

/// Reads an attribute that is an integer or a truth value (1 or 0).
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_get_i64(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    key: *const c_char,
    value: *mut i64,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (key, out) = (given::text(key, "key")?, given::out(value, "value")?);
        let found = get_one(&object.run, name, set, key)?;
        let number = found.as_i64().or_else(|| found.as_bool().map(i64::from));
        out.set(number.ok_or_else(|| is_not(key, &found, "an integer"))?);
        Ok(())
    })
}

/// Reads an attribute that is a text; free it with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_get_str(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    key: *const c_char,
    value: *mut *mut c_char,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (key, out) = (given::text(key, "key")?, given::out(value, "value")?);
        let found = get_one(&object.run, name, set, key)?;
        out.set(memory::give_text(found.as_str().ok_or_else(|| is_not(key, &found, "a text"))?)?);
        Ok(())
    })
}

/// Reads all attributes as a JSON object; free it with fb_free.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_get_json(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    json: *mut *mut c_char,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let out = given::out(json, "json")?;
        let all = object.run.attrs(&target(name, set)?)?;
        out.set(memory::give_text(&Value::Object(all).to_string())?);
        Ok(())
    })
}

/// Deletes an attribute; one that is not there is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_delete(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    key: *const c_char,
) -> fb_status {
    status(|| set_one(run, name, set, key, Ok(Value::Null)))
}

/// Whether there is such an attribute: 1 or 0.
#[unsafe(no_mangle)]
pub extern "C" fn fb_attr_has(
    run: *mut fb_run,
    name: *const c_char,
    set: i64,
    key: *const c_char,
    has: *mut c_int,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let (key, out) = (given::text(key, "key")?, given::out(has, "has")?);
        out.set(object.run.attrs(&target(name, set)?)?.contains_key(key).into());
        Ok(())
    })
}
