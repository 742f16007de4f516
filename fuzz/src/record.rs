//! Bytes as the records of a run, the requests and replies of calls, the questions and answers of readers.

use forebay_types::call::{get_call, get_outcome};
use forebay_types::codec::{Reader, Writer};
use forebay_types::line::{OwnerWords, RankWords, take_record};
use forebay_types::reading::{Wanted, take_array, take_rows};
use forebay_types::record::{Notice, Record};

pub fn record(bytes: &[u8]) {
    if let Ok((number, record)) = Record::decode(bytes) {
        let mut again = Writer::new();
        record.encode(number, &mut again);
        assert!(Record::decode(&again.finish()).is_ok(), "what was understood can be said again");
    }
    let _ = (Record::only_adds(bytes), Record::is_put(bytes));
    if let Ok(notice) = Notice::decode(bytes) {
        let mut again = Writer::new();
        notice.encode(&mut again);
        assert!(Notice::decode(&again.finish()).is_ok(), "what was understood can be said again");
    }
    let mut items = Vec::new();
    for before in [0, 64] {
        let _ = get_call(bytes, before, &mut items);
        let _ = get_outcome(bytes, before, &mut items);
    }
    let _ = (Wanted::decode(bytes), take_rows(bytes), OwnerWords::decode(bytes), RankWords::decode(bytes));
    let _ = take_array(&mut Reader::new(bytes));
    let mut records = Reader::new(bytes);
    while records.remaining() > 0 && take_record(&mut records).is_ok() {}
}
