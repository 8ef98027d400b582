//! The step that finds keywords, by RAKE (Rose et al., 2010): what stands
//! between stop words and punctuation is a phrase; a word's score is its degree
//! (the length of the phrases it is in) over its frequency, a phrase's the sum
//! over its words. Where no spaces tell words apart, the phrases are runs of
//! two to four characters that hold together: they stand in various places, and
//! more often than their parts would meet by chance.
#![crate_type = "cdylib"]

mod json;
mod stop;

use json::{quote, Json};
use std::collections::{BTreeMap, BTreeSet};
use stop::{STOP, STOP_UNSPACED};

#[link(wasm_import_module = "engine_v1")]
extern "C" {
    fn read(p: *mut u8);
    fn write(p: *const u8, n: usize);
}

/// The manifest, for the host.
#[link_section = "engine.step"]
#[used]
static MANIFEST: [u8; include_bytes!("step.json").len()] = *include_bytes!("step.json");

#[no_mangle]
pub extern "C" fn step_run(n: usize) {
    let mut request = vec![0; n];
    unsafe { read(request.as_mut_ptr()) };
    let request = String::from_utf8(request).expect("the host sends UTF-8");
    let response = match step(&Json::parse(&request)) {
        Ok(output) => format!("{{\"output\":{}}}", output),
        Err((path, message)) => {
            let mut r = String::from("{\"error\":{\"class\":\"invalid_input\",\"message\":");
            quote(&mut r, &message);
            r.push_str(",\"path\":");
            quote(&mut r, &path);
            r + "}}"
        }
    };
    unsafe { write(response.as_ptr(), response.len()) };
}

/// A JSON Pointer into the input, and what is wrong there.
type Invalid = (String, String);

/// What is known of a phrase.
#[derive(Default)]
struct Phrase {
    score: f64,
    count: usize,
    per_chapter: BTreeMap<usize, usize>, // occurrences by index of the chapter
}

type Phrases = BTreeMap<String, Phrase>;

fn step(request: &Json) -> Result<String, Invalid> {
    let invalid = |path: &str, message: &str| Err((path.to_string(), message.to_string()));
    let input = request.get("input");
    let field = |name| input.and_then(|i| i.get(name));
    let limit = match field("limit").and_then(Json::integer) {
        Some(n) if (1..=1000).contains(&n) => n as usize,
        _ => return invalid("/limit", "want a whole number from 1 to 1000"),
    };
    let mut numbers = Vec::new();
    let mut texts = Vec::new();
    for (i, c) in field("chapters").and_then(Json::array).unwrap_or_default().iter().enumerate() {
        match (c.get("number").and_then(Json::integer), c.get("text").and_then(Json::str)) {
            (Some(n), Some(t)) => (numbers.push(n), texts.push(t)),
            (None, _) => return invalid(&format!("/chapters/{}/number", i), "want a whole number"),
            (_, None) => return invalid(&format!("/chapters/{}/text", i), "want a string"),
        };
    }
    if texts.is_empty() {
        return invalid("/chapters", "want an array of at least one chapter");
    }

    let mut phrases = spaced(&texts);
    phrases.append(&mut unspaced(&texts));
    let characters: usize = texts.iter().map(|t| t.len()).sum();
    let least = if characters > 50_000 { 3 } else if characters > 1_000 { 2 } else { 1 };
    phrases.retain(|_, p| p.count >= least);

    let mut out = String::from("{\"keywords\":[");
    for (i, (name, p)) in best(&phrases, limit, |p| p.score * (1.0 + p.count as f64).ln()).iter().enumerate() {
        out.push_str(if i > 0 { ",{\"phrase\":" } else { "{\"phrase\":" });
        quote(&mut out, name);
        let chapters: Vec<String> = p.per_chapter.keys().map(|&c| numbers[c].to_string()).collect();
        out.push_str(&format!(",\"score\":{:.3},\"count\":{},\"chapters\":[{}]}}", p.score, p.count, chapters.join(",")));
    }
    out.push_str("],\"chapters\":[");
    for (i, number) in numbers.iter().enumerate() {
        out.push_str(&format!("{}{{\"number\":{},\"keywords\":[", if i > 0 { "," } else { "" }, number));
        // What is frequent here and rare elsewhere tells this chapter from the others.
        let telling = |p: &Phrase| {
            let here = *p.per_chapter.get(&i).unwrap_or(&0) as f64;
            p.score * (1.0 + here).ln() * (numbers.len() as f64 / p.per_chapter.len() as f64).ln_1p()
        };
        for (k, (name, _)) in best(&phrases, PER_CHAPTER, telling).iter().enumerate() {
            out.push_str(if k > 0 { "," } else { "" });
            quote(&mut out, name);
        }
        out.push_str("]}");
    }
    out.push_str("]}");
    Ok(out)
}

const PER_CHAPTER: usize = 6;

/// The phrases of highest worth, without those of worth 0 and without parts of
/// better ones that seldom stand elsewhere; equals stand in the order of their
/// characters.
fn best(phrases: &Phrases, n: usize, worth: impl Fn(&Phrase) -> f64) -> Vec<(&String, &Phrase)> {
    let mut all: Vec<_> = phrases.iter().map(|(k, p)| (worth(p), k, p)).filter(|e| e.0 > 0.0).collect();
    all.sort_by(|a, b| b.0.partial_cmp(&a.0).expect("worths are finite").then(a.1.cmp(b.1)));
    let mut chosen: Vec<(&String, &Phrase)> = Vec::new();
    for (_, k, p) in all {
        if chosen.len() == n {
            break;
        }
        if !chosen.iter().any(|(whole, w)| whole.contains(k.as_str()) && p.count <= 2 * w.count) {
            chosen.push((k, p));
        }
    }
    chosen
}

/// RAKE's phrases of at most three words.
fn spaced(texts: &[&str]) -> Phrases {
    let stop: BTreeSet<&str> = STOP.split_whitespace().collect();
    let mut words: BTreeMap<String, (usize, usize)> = BTreeMap::new(); // frequency, degree
    let mut phrases = Phrases::new();
    for (chapter, text) in texts.iter().enumerate() {
        let mut phrase: Vec<String> = Vec::new();
        let mut end = |phrase: &mut Vec<String>| {
            for w in phrase.iter() {
                let e = words.entry(w.clone()).or_default();
                *e = (e.0 + 1, e.1 + phrase.len());
            }
            if (1..=3).contains(&phrase.len()) {
                let p = phrases.entry(phrase.join(" ")).or_default();
                p.count += 1;
                *p.per_chapter.entry(chapter).or_default() += 1;
            }
            phrase.clear();
        };
        for token in tokens(text) {
            match token {
                Token::Word(w) if w.chars().count() > 2 && !stop.contains(w.as_str()) => phrase.push(w),
                Token::Word(w) if w == "st" => phrase.push(w), // a saint or a street
                _ => end(&mut phrase),
            }
        }
        end(&mut phrase);
    }
    for (name, p) in phrases.iter_mut() {
        p.score = name.split(' ').map(|w| words[w].1 as f64 / words[w].0 as f64).sum();
    }
    phrases
}

enum Token {
    Word(String), // in lower case, without a possessive 's
    Break,
}

/// Words and what separates phrases: punctuation, numbers, blank lines.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    let mut newlines = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let joins = matches!(c, '\'' | '’' | '-') && !word.is_empty() && chars.peek().map_or(false, |n| n.is_alphabetic());
        if (c.is_alphabetic() && !is_unspaced(c)) || joins {
            word.extend(c.to_lowercase());
            continue;
        }
        let short = matches!(word.as_str(), "mr" | "mrs" | "dr" | "st"); // their full stop ends nothing
        if !word.is_empty() {
            let bare = word.trim_end_matches("'s").trim_end_matches("’s").to_string();
            tokens.push(Token::Word(bare));
            word.clear();
        }
        newlines = if c == '\n' { newlines + 1 } else if c.is_whitespace() { newlines } else { 0 };
        if newlines > 1 || !c.is_whitespace() && !(c == '.' && short) {
            tokens.push(Token::Break);
        }
    }
    tokens.push(Token::Word(word));
    tokens
}

fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Runs of two to four characters that hold together.
fn unspaced(texts: &[&str]) -> Phrases {
    // Counted level by level: what occurs twice consists of parts that do, so
    // that only those are looked at and a long novel fits into memory.
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for n in 1..=LONGEST_RUN {
        let mut level = BTreeMap::new();
        for (_, run, _, _) in texts.iter().enumerate().flat_map(|(i, t)| runs(i, t, n)) {
            let twice = |part: &str| counts.get(part).map_or(false, |&c| c > 1);
            let first = run.chars().next().map_or(0, char::len_utf8);
            let last = run.chars().next_back().map_or(0, char::len_utf8);
            if n == 1 || twice(&run[first..]) && twice(&run[..run.len() - last]) {
                *level.entry(run).or_insert(0) += 1;
            }
        }
        counts.append(&mut level);
    }
    let total: usize = counts.iter().filter(|(run, _)| run.chars().count() == 1).map(|(_, c)| c).sum();

    // How much more often the parts meet than by chance, at the weakest seam.
    let bond = |run: &str, count: usize| {
        let seams = run.char_indices().skip(1).map(|(i, _)| counts[&run[..i]] * counts[&run[i..]]);
        seams.map(|parts| (count * total) as f64 / parts as f64).fold(f64::INFINITY, f64::min)
    };
    // Short texts have no large bonds; there, parts that stand nowhere else do.
    let bound = |run: &str, count: usize| bond(run, count) >= 8.0 || bond(run, count) * count as f64 >= total as f64;
    let mut phrases = Phrases::new();
    let mut sides: BTreeMap<&str, [BTreeSet<Option<char>>; 2]> = BTreeMap::new();
    for n in 2..=LONGEST_RUN {
        for (chapter, run, before, after) in texts.iter().enumerate().flat_map(|(i, t)| runs(i, t, n)) {
            let count = counts.get(run).copied().unwrap_or(0);
            if count < 2 || run.chars().any(|c| STOP_UNSPACED.contains(c)) || !bound(run, count) {
                continue;
            }
            let p = phrases.entry(run.to_string()).or_default();
            let seldom = 1.0 - 1.0 / count as f64; // chance makes rare meetings look like bonds
            p.score = n as f64 * bond(run, count).ln() * seldom;
            p.count = count;
            *p.per_chapter.entry(chapter).or_default() += 1;
            let [left, right] = sides.entry(run).or_default();
            left.insert(before);
            right.insert(after);
        }
    }
    // With one neighbour only, it is a part of something longer.
    let free = |side: &BTreeSet<Option<char>>| side.len() > 1 || side.contains(&None);
    phrases.retain(|name, _| sides[name.as_str()].iter().all(free));
    phrases
}

const LONGEST_RUN: usize = 4;

/// All runs of n characters between other characters, with the chapter and the
/// neighbours.
fn runs(chapter: usize, text: &str, n: usize) -> impl Iterator<Item = (usize, &str, Option<char>, Option<char>)> {
    let clauses = text.split(|c| !is_unspaced(c)).filter(|s| !s.is_empty());
    clauses.flat_map(move |clause| {
        let mut at: Vec<usize> = clause.char_indices().map(|(i, _)| i).collect();
        at.push(clause.len());
        (0..at.len().saturating_sub(n)).map(move |i| {
            let (before, run, after) = (&clause[..at[i]], &clause[at[i]..at[i + n]], &clause[at[i + n]..]);
            (chapter, run, before.chars().next_back(), after.chars().next())
        })
    })
}
