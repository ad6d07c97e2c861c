//! Asking an oracle: JSON lines in, JSON lines out, both at the same time.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::oracle;

/// The questions as an oracle reads them.
pub fn lines(questions: &[impl Serialize]) -> Vec<u8> {
    let mut lines = Vec::new();
    for question in questions {
        serde_json::to_writer(&mut lines, question).unwrap();
        lines.push(b'\n');
    }
    lines
}

/// Asks an oracle and hands every answer to `each`, in the order of the questions.
pub fn ask<A: DeserializeOwned>(release: &str, program: &str, lines: &[u8], mut each: impl FnMut(A)) {
    let mut oracle =
        Command::new(oracle::build(release, program)).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = oracle.stdin.take().unwrap();
    let answers = BufReader::new(oracle.stdout.take().unwrap());
    let mut answered = 0;
    std::thread::scope(|scope| {
        // It owns the pipe, so that the oracle sees its end.
        scope.spawn(move || stdin.write_all(lines).unwrap());
        for line in answers.lines() {
            each(serde_json::from_str(&line.unwrap()).unwrap());
            answered += 1;
        }
    });
    assert!(oracle.wait().unwrap().success());
    assert_eq!(answered, lines.iter().filter(|byte| **byte == b'\n').count());
}

/// The answers to a few questions.
pub fn answers<A: DeserializeOwned>(release: &str, program: &str, questions: &[impl Serialize]) -> Vec<A> {
    let mut answers = Vec::new();
    ask(release, program, &lines(questions), |answer| answers.push(answer));
    answers
}
