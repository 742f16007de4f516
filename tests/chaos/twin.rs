//! The undisturbed twin: the same program, as many steps, hurt by nobody. Both runs have to be equal to
//! the last bit.

use forebay::{Mode, OpenOptions, Result, Run};

use crate::program::{Part, lost};

/// The run of a stage, to be read.
pub fn read(part: &Part) -> Result<Run> {
    forebay::open(&part.dir.join("chaos").display().to_string(), Mode::Read, OpenOptions::default())
}

/// Compares two runs; says how many steps they have.
pub fn compare(hurt: &Part, calm: &Part) -> Result<usize> {
    let (hurt, calm) = (read(hurt)?, read(calm)?);
    let steps = calm.snapshots()?.numbers().unwrap().to_vec();
    if hurt.snapshots()?.numbers().unwrap() != steps {
        return Err(lost("the undisturbed run has other steps".into()));
    }
    for step in &steps {
        let (a, b) = (hurt.snapshots()?.at(*step)?, calm.snapshots()?.at(*step)?);
        let names = b.names()?;
        if a.names()? != names || a.time() != b.time() {
            return Err(lost(format!("step {step} has other names than undisturbed")));
        }
        for name in names {
            if a.get(&name, None)?.bytes != b.get(&name, None)?.bytes {
                return Err(lost(format!("step {step}: {name} has other bits than undisturbed")));
            }
        }
    }
    for data in calm.list("*", None)? {
        let (a, b) = (hurt.get(&data.name, data.set, None)?, calm.get(&data.name, data.set, None)?);
        if a.bytes != b.bytes {
            return Err(lost(format!("{} has other bits than undisturbed", data.name)));
        }
    }
    let rows = "SELECT at, value FROM history ORDER BY at";
    let points = "SELECT step, t, value FROM fb_points ORDER BY step";
    for query in [rows, points] {
        if hurt.sql(query, &[])?.rows != calm.sql(query, &[])?.rows {
            return Err(lost(format!("other rows than undisturbed: {query}")));
        }
    }
    Ok(steps.len())
}
