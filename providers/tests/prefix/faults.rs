//! Faults, injected into stable conversations one at a time.
//!
//! Each says from which request on it shows, which rules name it, and in which segment.

use serde_json::{Value, json};

use super::conversation::{Conversation, Form, Marks, Request};

/// Something that can go wrong with a prefix.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// Any of these names it right.
    pub(crate) rules: &'static [&'static str],
    /// What the conversation must have.
    pub(crate) needs: Needs,
    /// Which forms it can show in.
    pub(crate) forms: &'static [Form],
    /// Breaks a conversation; the first request, by index, at which it must be found, and the
    /// beginning of the path to the segment in each form.
    pub(crate) inject: fn(&mut Conversation) -> Option<Injected>,
}

/// Where a fault must be found.
pub(crate) struct Injected {
    /// The first request at which it shows, by index.
    pub(crate) at: usize,
    /// Beginnings of paths that are right, in either form; empty where the whole request is meant.
    pub(crate) paths: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Anything,
    /// Tool definitions.
    Tools,
    /// Tool calls in the history.
    Calls,
}

const BOTH: &[Form] = &[Form::Chat, Form::Messages];
const CHAT: &[Form] = &[Form::Chat];
const MESSAGES: &[Form] = &[Form::Messages];

fn fault(
    name: &'static str,
    rules: &'static [&'static str],
    needs: Needs,
    forms: &'static [Form],
    inject: fn(&mut Conversation) -> Option<Injected>,
) -> Fault {
    Fault {
        name,
        rules,
        needs,
        forms,
        inject,
    }
}

/// A few lines into the system prompt, where text of harnesses usually stands.
fn into_system(request: &mut Request, text: &str) {
    match request.system.first_mut() {
        Some(system) => {
            let at = system.find('\n').map_or(0, |at| at + 1);
            system.insert_str(at, &format!("{text}\n"));
        }
        None => request
            .system
            .push(format!("You are a helpful assistant.\n{text}\n")),
    }
}

fn in_system(at: usize) -> Option<Injected> {
    injected(at, &["messages[0]", "system"])
}

#[expect(clippy::unnecessary_wraps, reason = "the way an injection ends")]
fn injected(at: usize, paths: &[&str]) -> Option<Injected> {
    Some(Injected {
        at,
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    })
}

/// A line of the system prompt that is another at each request.
fn line(conversation: &mut Conversation, text: impl Fn(usize) -> String) -> Option<Injected> {
    for (at, request) in conversation.requests.iter_mut().enumerate() {
        into_system(request, &text(at));
    }
    in_system(1)
}

/// As random as a test may be.
fn mixed(at: usize) -> u64 {
    (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635_d1a2_4c9b
}

fn clock(at: usize) -> (usize, usize, usize) {
    let seconds = at * 37 + 11;
    (10 + seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn letters(at: usize) -> String {
    const ALPHABET: &[u8] = b"abcdefghkmnpqrstuvwxyz23456789";
    let mut seed = mixed(at);
    let mut text = String::new();
    for place in 0..12 {
        let letter = char::from(ALPHABET[(seed % 30) as usize]);
        text.push(if place % 5 == 2 {
            char::from(b'0' + (seed % 10) as u8)
        } else {
            letter
        });
        seed = (seed / 7) ^ (seed << 9);
    }
    text
}

/// The path to a message in chat form; system messages stand before the others.
fn chat_path(request: &Request, message: usize) -> String {
    format!("messages[{}]", message + request.system.len())
}

/// The first request that has more than `messages` messages, by index.
fn grown(conversation: &Conversation, messages: usize) -> Option<usize> {
    conversation
        .requests
        .iter()
        .position(|request| request.messages.len() > messages)
}

/// Breaks one message of the history from the request on at which it is no longer new.
fn at_message(
    conversation: &mut Conversation,
    role: &str,
    breaks: impl Fn(&mut Value, usize),
) -> Option<Injected> {
    let last = conversation.requests.last()?;
    let place = (1..last.messages.len()).find(|at| {
        last.messages[*at]["role"] == role && last.messages[*at]["content"].is_string()
    })?;
    let first = grown(conversation, place + 2)?;
    let mut at = None;
    for (number, request) in conversation.requests.iter_mut().enumerate().skip(first + 1) {
        breaks(&mut request.messages[place], number);
        at = at.or(Some(number));
    }
    let path = chat_path(&conversation.requests[0], place);
    Some(Injected {
        at: at?,
        paths: vec![path, "messages".to_owned()],
    })
}

fn text(message: &mut Value, change: impl Fn(&str) -> String) {
    if let Some(content) = message["content"].as_str() {
        let changed = change(content);
        message["content"] = changed.into();
    }
}

/// All of a conversation's tools, changed at every second request.
fn every_second(
    conversation: &mut Conversation,
    change: impl Fn(&mut Request),
) -> Option<Injected> {
    for request in conversation.requests.iter_mut().skip(1).step_by(2) {
        change(request);
    }
    injected(1, &["tools"])
}

fn parameters(tool: &mut Value) -> &mut Value {
    &mut tool["function"]["parameters"]
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn all() -> Vec<Fault> {
    use Needs::{Anything, Calls, Tools};
    vec![
        fault("iso time", &["volatile-timestamp"], Anything, BOTH, |c| {
            line(c, |at| {
                let (h, m, s) = clock(at);
                format!("Now: 2026-11-30 {h}:{m:02}:{s:02}")
            })
        }),
        fault(
            "iso time with milliseconds",
            &["volatile-timestamp"],
            Anything,
            BOTH,
            |c| {
                line(c, |at| {
                    let (h, m, s) = clock(at);
                    format!(
                        "<time>2026-11-30T{h}:{m:02}:{s:02}.{:03}Z</time>",
                        at * 83 % 1000
                    )
                })
            },
        ),
        fault("mail date", &["volatile-timestamp"], Anything, BOTH, |c| {
            line(c, |at| {
                let (h, m, s) = clock(at);
                format!("It is Mon, 30 Nov 2026 {h}:{m:02}:{s:02} GMT.")
            })
        }),
        fault(
            "american time",
            &["volatile-timestamp"],
            Anything,
            BOTH,
            |c| {
                line(c, |at| {
                    format!(
                        "Current time: 11/30/2026, {}:{:02} PM",
                        1 + at / 60,
                        at % 60
                    )
                })
            },
        ),
        fault(
            "chinese time",
            &["volatile-timestamp"],
            Anything,
            BOTH,
            |c| {
                line(c, |at| {
                    let (h, m, s) = clock(at);
                    format!("当前时间:2026年11月30日 {h}时{m:02}分{s:02}秒")
                })
            },
        ),
        fault(
            "chinese half day",
            &["volatile-timestamp"],
            Anything,
            BOTH,
            |c| {
                line(c, |at| {
                    let (h, m, _) = clock(at);
                    format!(
                        "现在是二〇二六年十一月三十日星期一 上午{h}:{m:02}:{:02}",
                        at % 60
                    )
                })
            },
        ),
        fault(
            "german time",
            &["volatile-timestamp"],
            Anything,
            BOTH,
            |c| {
                line(c, |at| {
                    let (h, m, s) = clock(at);
                    format!("Es ist der 30. November 2026, {h}:{m:02}:{s:02} Uhr")
                })
            },
        ),
        fault(
            "russian time",
            &["volatile-timestamp"],
            Anything,
            BOTH,
            |c| {
                line(c, |at| {
                    format!("Сейчас 30 ноября 2026 г. в {}:{:02}", 10 + at / 60, at % 60)
                })
            },
        ),
        fault("time only", &["volatile-timestamp"], Anything, BOTH, |c| {
            line(c, |at| {
                let (h, m, s) = clock(at);
                format!("The clock shows {h}:{m:02}:{s:02}.")
            })
        }),
        fault("date", &["volatile-date"], Anything, BOTH, |c| {
            line(c, |at| {
                format!("Today's date: 2026-11-{:02}", 1 + at / 3 % 28)
            })
            .map(|i| Injected { at: 3, ..i })
        }),
        fault("weekday", &["volatile-date"], Anything, BOTH, |c| {
            const DAYS: [&str; 3] = ["Monday", "Tuesday", "Wednesday"];
            line(c, |at| format!("Today is {}.", DAYS[at / 2 % 3])).map(|i| Injected { at: 2, ..i })
        }),
        fault("epoch seconds", &["epoch-number"], Anything, BOTH, |c| {
            line(c, |at| format!("ts={}", 1_796_032_801 + at * 17))
        }),
        fault(
            "epoch milliseconds",
            &["epoch-number"],
            Anything,
            BOTH,
            |c| {
                line(c, |at| {
                    format!(
                        "Generated at {}.",
                        1_796_032_801_123_u64 + at as u64 * 17_011
                    )
                })
            },
        ),
        fault("uuid", &["random-uuid"], Anything, BOTH, |c| {
            line(c, |at| {
                let x = mixed(at);
                format!(
                    "<doc id=\"{:08x}-5e8c-4a3a-8000-{:012x}\">",
                    x >> 32,
                    x & 0xffff_ffff_ffff
                )
            })
        }),
        fault("random id", &["random-identifier"], Anything, BOTH, |c| {
            line(c, |at| format!("handle {}", letters(at)))
        }),
        fault(
            "hexadecimal id",
            &["random-identifier"],
            Anything,
            BOTH,
            |c| line(c, |at| format!("etag \"{:016x}\"", mixed(at))),
        ),
        fault("request id", &["request-identifier"], Anything, BOTH, |c| {
            line(c, |at| format!("Request ID: req_{}", letters(at)))
        }),
        fault("trace id", &["request-identifier"], Anything, BOTH, |c| {
            line(c, |at| {
                format!("[trace_id={:016x}{:016x}]", mixed(at), mixed(at + 99))
            })
        }),
        fault("step counter", &["running-counter"], Anything, BOTH, |c| {
            line(c, |at| format!("This is step {} of 50.", at + 1))
        }),
        fault("budget left", &["running-counter"], Anything, BOTH, |c| {
            line(c, |at| format!("Tokens left: {}", 100_000 - at * 1_313))
        }),
        fault("money spent", &["running-counter"], Anything, BOTH, |c| {
            line(c, |at| {
                format!("Spent so far: ${}.{:02}", at / 7, at * 13 % 100)
            })
        }),
        fault(
            "working directory",
            &["working-directory"],
            Anything,
            BOTH,
            |c| {
                const FOLDERS: [&str; 3] = [
                    "/home/dev/project",
                    "/home/dev/project/src",
                    "/srv/work/project/tests",
                ];
                line(c, |at| format!("Working directory: {}", FOLDERS[at % 3]))
            },
        ),
        fault("temporary path", &["temporary-path"], Anything, BOTH, |c| {
            line(c, |at| {
                format!("Scratch folder: /tmp/agent-{}/notes.md", letters(at))
            })
        }),
        fault(
            "mac temporary path",
            &["temporary-path"],
            Anything,
            BOTH,
            |c| line(c, |at| format!("TMPDIR=/var/folders/zz/{}/T", letters(at))),
        ),
        fault("git commit", &["git-state"], Anything, BOTH, |c| {
            line(c, |at| format!("HEAD is at commit {:07x}", mixed(at) >> 36))
        }),
        fault("git branch", &["git-state"], Anything, BOTH, |c| {
            const BRANCHES: [&str; 2] = ["main", "fix/parser"];
            line(c, |at| format!("Current branch: {}", BRANCHES[at % 2]))
        }),
        fault("git status", &["git-state"], Anything, BOTH, |c| {
            line(c, |at| {
                format!(
                    "git status:\n M src/lib.rs\n{}",
                    if at % 2 == 0 {
                        "?? notes.txt"
                    } else {
                        " M src/main.rs"
                    }
                )
            })
        }),
        fault(
            "experiment label",
            &["experiment-label"],
            Anything,
            BOTH,
            |c| {
                line(c, |at| {
                    format!("[variant={}]", ["control", "treatment-b"][at % 2])
                })
            },
        ),
        fault("user name", &["user-name"], Anything, BOTH, |c| {
            line(c, |at| {
                format!(
                    "The user's name is {}.",
                    ["Mira Okafor", "Jonas Weber", "Li Na"][at % 3]
                )
            })
        }),
        fault("mail address", &["user-name"], Anything, BOTH, |c| {
            line(c, |at| {
                format!(
                    "Signed in: {}@nordwind.example",
                    ["mira.o", "jonas", "li.na"][at % 3]
                )
            })
        }),
        fault("pod name", &["process-detail"], Anything, BOTH, |c| {
            line(c, |at| {
                format!("Running on host web-{}", ["alpha", "beta", "gamma"][at % 3])
            })
        }),
        fault("mood", &["volatile-text"], Anything, BOTH, |c| {
            line(c, |at| {
                format!(
                    "Mood of the moment: {}",
                    ["curious", "calm and kind", "brisk"][at % 3]
                )
            })
        }),
        fault(
            "time in the first message",
            &["volatile-timestamp"],
            Anything,
            BOTH,
            |c| {
                for (at, request) in c.requests.iter_mut().enumerate() {
                    let (h, m, s) = clock(at);
                    text(&mut request.messages[0], |t| {
                        format!("It is now {h}:{m:02}:{s:02} on 2026-11-30.\n{t}")
                    });
                }
                injected(1, &["messages[1]", "messages[0]"])
            },
        ),
        fault(
            "time in a tool",
            &["volatile-timestamp"],
            Tools,
            BOTH,
            |c| {
                for (at, request) in c.requests.iter_mut().enumerate() {
                    let (h, m, s) = clock(at);
                    text_in(
                        &mut request.tools[0]["function"]["description"],
                        &format!("As of 2026-11-30 {h}:{m:02}:{s:02}: "),
                    );
                }
                injected(1, &["tools[0]"])
            },
        ),
        // Order and serialisation.
        fault("tools shuffled", &["unsorted-tools"], Tools, BOTH, |c| {
            every_second(c, |r| r.tools.reverse())
        }),
        fault("one tool moved", &["unsorted-tools"], Tools, BOTH, |c| {
            every_second(c, |r| {
                let last = r.tools.pop().unwrap();
                r.tools.insert(0, last);
            })
        }),
        fault("keys of tools reversed", &["key-order"], Tools, BOTH, |c| {
            every_second(c, |r| r.style.tool_keys_reversed = true)
        }),
        fault("tools spaced", &["json-whitespace"], Tools, BOTH, |c| {
            every_second(c, |r| r.style.tools_spaced = true)
        }),
        fault("numbers of tools", &["number-format"], Tools, BOTH, |c| {
            for request in &mut c.requests {
                parameters(&mut request.tools[0])["maxProperties"] = json!(9);
            }
            every_second(c, |r| r.style.tool_decimals = true)
        }),
        fault("required reordered", &["element-order"], Tools, BOTH, |c| {
            for request in &mut c.requests {
                parameters(&mut request.tools[0])["required"] = json!(["alpha", "beta", "gamma"]);
            }
            every_second(c, |r| {
                parameters(&mut r.tools[0])["required"] = json!(["gamma", "alpha", "beta"]);
            })
        }),
        fault("schema default", &["schema-member"], Tools, BOTH, |c| {
            every_second(c, |r| {
                parameters(&mut r.tools[0])["title"] = json!("Arguments");
            })
        }),
        fault("enum grows", &["schema-member"], Tools, BOTH, |c| {
            for (at, request) in c.requests.iter_mut().enumerate() {
                let open: Vec<String> = (0..=at / 2).map(|n| format!("file{n}.rs")).collect();
                parameters(&mut request.tools[0])["x-open"] = json!({"enum": open});
            }
            injected(2, &["tools[0]"])
        }),
        fault("tool added", &["changing-tool-set"], Tools, BOTH, |c| {
            let half = c.requests.len() / 2;
            for request in c.requests.iter_mut().skip(half) {
                let new = json!({"type": "function", "function": {"name": "a_new_tool", "description": "Does more.",
                    "parameters": {"type": "object", "properties": {}}}});
                request.tools.insert(0, new);
            }
            injected(half, &["tools"])
        }),
        fault("tool removed", &["changing-tool-set"], Tools, BOTH, |c| {
            let half = c.requests.len() / 2;
            for request in c.requests.iter_mut().skip(half) {
                request.tools.remove(0);
            }
            injected(half, &["tools"])
        }),
        fault(
            "answer schema",
            &["changed-answer-schema"],
            Anything,
            CHAT,
            |c| {
                let half = c.requests.len() / 2;
                for request in c.requests.iter_mut().skip(half) {
                    request
                        .fields
                        .insert("response_format".into(), json!({"type": "json_object"}));
                }
                injected(half, &["response_format"])
            },
        ),
        fault(
            "keys of arguments",
            &["argument-key-order"],
            Calls,
            CHAT,
            |c| {
                arguments(c, |raw| {
                    let value: Value = serde_json::from_str(raw).ok()?;
                    let members: Vec<_> = value.as_object()?.iter().collect();
                    let (comma, colon) = if raw.contains("\": ") {
                        (", ", ": ")
                    } else {
                        (",", ":")
                    };
                    let write = |members: Vec<&(&String, &Value)>| {
                        let parts: Vec<String> = members
                            .iter()
                            .map(|(k, v)| format!("{}{colon}{v}", json!(k)))
                            .collect();
                        format!("{{{}}}", parts.join(comma))
                    };
                    let turned = [
                        write(members.iter().collect()),
                        write(members.iter().rev().collect()),
                    ];
                    turned
                        .into_iter()
                        .find(|text| text != raw && text.len() == raw.len())
                })
            },
        ),
        fault(
            "spaces of arguments",
            &["json-whitespace"],
            Calls,
            CHAT,
            |c| {
                arguments(c, |raw| {
                    let value: Value = serde_json::from_str(raw).ok()?;
                    let parts: Vec<String> =
                        serde_json::from_str::<serde_json::Map<String, Value>>(raw)
                            .ok()?
                            .iter()
                            .map(|(k, v)| format!("{} : {v}", json!(k)))
                            .collect();
                    value
                        .as_object()
                        .filter(|o| !o.is_empty())
                        .map(|_| format!("{{{}}}", parts.join(" , ")))
                })
            },
        ),
        fault("normal form", &["unicode-form"], Anything, BOTH, |c| {
            for request in &mut c.requests {
                text(&mut request.messages[0], |t| {
                    format!("Open résumé.pdf first.\n{t}")
                });
            }
            for request in c.requests.iter_mut().skip(2) {
                text(&mut request.messages[0], |t| {
                    t.replace("résumé", "re\u{301}sume\u{301}")
                });
            }
            injected(2, &["messages[1]", "messages[0]"])
        }),
        fault("escapes", &["json-escapes"], Anything, BOTH, |c| {
            for request in &mut c.requests {
                text(&mut request.messages[0], |t| {
                    format!("Open résumé.pdf first.\n{t}")
                });
            }
            for request in c.requests.iter_mut().skip(1).step_by(2) {
                request.style.ascii = true;
            }
            injected(1, &["messages[1]", "messages[0]", "system"])
        }),
        fault(
            "trimmed answer",
            &["text-whitespace"],
            Anything,
            BOTH,
            |c| {
                for request in &mut c.requests {
                    text(&mut request.messages[0], |t| format!("{t}\n\n"));
                }
                for request in c.requests.iter_mut().skip(2) {
                    text(&mut request.messages[0], |t| t.trim_end().to_owned());
                }
                injected(2, &["messages[1]", "messages[0]"])
            },
        ),
        fault("line ends", &["text-whitespace"], Anything, BOTH, |c| {
            for request in c.requests.iter_mut().skip(2) {
                text(&mut request.messages[0], |t| {
                    format!("{}\r\n", t.trim_end().replace('\n', "\r\n"))
                });
            }
            injected(2, &["messages[1]", "messages[0]"])
        }),
        // History.
        fault(
            "answer cleaned up",
            &["rewritten-history", "volatile-text"],
            Anything,
            BOTH,
            |c| {
                at_message(c, "assistant", |m, _| {
                    text(m, |_| {
                        "I looked at it and went on with the next step.".into()
                    });
                })
            },
        ),
        fault(
            "question shortened",
            &["rewritten-history", "volatile-text"],
            Anything,
            BOTH,
            |c| {
                for request in c.requests.iter_mut().skip(2) {
                    text(&mut request.messages[0], |t| {
                        let end = t
                            .char_indices()
                            .nth(t.chars().count() / 3)
                            .map_or(0, |(at, _)| at);
                        format!("{} (shortened)", &t[..end])
                    });
                }
                injected(2, &["messages[1]", "messages[0]"])
            },
        ),
        fault(
            "front trimmed once",
            &["trimmed-front"],
            Anything,
            BOTH,
            |c| {
                let from = grown(c, 7)?;
                for request in c.requests.iter_mut().skip(from) {
                    request.messages.drain(1..3);
                }
                injected(from, &["messages"])
            },
        ),
        fault(
            "sliding window",
            &["sliding-window", "trimmed-front"],
            Anything,
            BOTH,
            |c| {
                let from = grown(c, 9)?;
                for request in c.requests.iter_mut().skip(from) {
                    let end = request.messages.len() - 8;
                    let end = end + end % 2;
                    request.messages.drain(..end);
                }
                injected(from, &["messages"])
            },
        ),
        fault(
            "compacted at every turn",
            &["frequent-compaction"],
            Anything,
            BOTH,
            |c| {
                let from = grown(c, 8)?;
                for (at, request) in c.requests.iter_mut().enumerate().skip(from) {
                    let end = request.messages.len() - 4;
                    let summary = json!({"role": "user", "content": format!("Summary no. {at}: {} messages were exchanged; {}", end, letters(at))});
                    request.messages.splice(0..end, [summary]);
                }
                injected(from + 1, &["messages"])
            },
        ),
        fault(
            "tool result edited",
            &["edited-tool-result"],
            Calls,
            BOTH,
            |c| at_message(c, "tool", |m, _| text(m, |_| "(output omitted)".into())),
        ),
        fault(
            "older results elided",
            &["edited-tool-result"],
            Calls,
            BOTH,
            |c| {
                let mut at = None;
                let mut sent = 0;
                let mut elided = Vec::new();
                for (number, request) in c.requests.iter_mut().enumerate() {
                    let length = request.messages.len();
                    let tools: Vec<usize> = (0..request.messages.len())
                        .filter(|m| request.messages[*m]["role"] == "tool")
                        .collect();
                    for message in tools.iter().rev().skip(2) {
                        text(&mut request.messages[*message], |_| {
                            "(old output omitted)".into()
                        });
                        if !elided.contains(message) {
                            elided.push(*message);
                            at = at.or((*message < sent).then_some(number));
                        }
                    }
                    sent = length;
                }
                injected(at?, &["messages"])
            },
        ),
        fault(
            "reasoning dropped",
            &["dropped-reasoning"],
            Anything,
            BOTH,
            |c| {
                for request in &mut c.requests {
                    for (at, message) in request
                        .messages
                        .iter_mut()
                        .enumerate()
                        .filter(|(_, m)| m["role"] == "assistant")
                    {
                        message["reasoning_content"] =
                            json!(format!("Let me think about part {at} of it for a moment."));
                    }
                }
                at_message(c, "assistant", |m, _| {
                    m.as_object_mut().unwrap().remove("reasoning_content");
                })
            },
        ),
        fault(
            "image encoded anew",
            &["reencoded-image"],
            Anything,
            BOTH,
            |c| {
                for (at, request) in c.requests.iter_mut().enumerate() {
                    let bytes: Vec<String> = (0..60)
                        .map(|n| format!("{:016x}", mixed(at * 100 + n)))
                        .collect();
                    let bytes = bytes.concat();
                    let said = request.messages[0]["content"].clone();
                    request.messages[0]["content"] = json!([{"type": "text", "text": said},
                    {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{bytes}")}}]);
                }
                injected(1, &["messages[1]", "messages[0]"])
            },
        ),
        fault(
            "message inserted",
            &["inserted-message"],
            Anything,
            BOTH,
            |c| {
                let from = grown(c, 6)?;
                for request in c.requests.iter_mut().skip(from) {
                    request.messages.insert(2, json!({"role": "user", "content": "Remember to run the tests before you finish your work."}));
                }
                injected(from, &["messages"])
            },
        ),
        fault(
            "message removed",
            &["removed-message", "trimmed-front"],
            Anything,
            BOTH,
            |c| {
                let from = grown(c, 9)?;
                for request in c.requests.iter_mut().skip(from) {
                    request.messages.remove(4);
                }
                injected(from, &["messages"])
            },
        ),
        fault(
            "messages reordered",
            &["reordered-messages"],
            Anything,
            BOTH,
            |c| {
                let from = grown(c, 8)?;
                for request in c.requests.iter_mut().skip(from) {
                    request.messages.swap(2, 4);
                }
                injected(from, &["messages"])
            },
        ),
        fault(
            "ids of calls drawn anew",
            &["call-identifier"],
            Calls,
            BOTH,
            |c| {
                for (at, request) in c.requests.iter_mut().enumerate() {
                    let mut number = 0;
                    let mut last = Vec::new();
                    for message in &mut request.messages {
                        if let Some(calls) = message["tool_calls"].as_array_mut() {
                            last.clear();
                            for call in calls {
                                number += 1;
                                let id = format!("call_{}", letters(at * 1000 + number));
                                last.push((call["id"].clone(), id.clone()));
                                call["id"] = id.into();
                            }
                        } else if message["role"] == "tool" {
                            let new = last
                                .iter()
                                .find(|(old, _)| *old == message["tool_call_id"])
                                .map(|(_, new)| new.clone());
                            if let Some(new) = new {
                                message["tool_call_id"] = new.into();
                            }
                        }
                    }
                }
                let first = c
                    .requests
                    .iter()
                    .position(|r| r.messages.iter().any(|m| m["role"] == "tool"))?;
                injected(first + 1, &["messages"])
            },
        ),
        fault(
            "another system prompt",
            &["changed-system-prompt"],
            Anything,
            BOTH,
            |c| {
                let half = c.requests.len() / 2;
                for request in c.requests.iter_mut().skip(half) {
                    request.system = vec!["You review code now. Be brief, be strict, and list what must change before merging.".into()];
                }
                in_system(half)
            },
        ),
        // Layout.
        fault(
            "notes before instructions",
            &["volatile-before-stable"],
            Anything,
            BOTH,
            |c| {
                for (at, request) in c.requests.iter_mut().enumerate() {
                    let notes: Vec<String> = (0..8)
                        .map(|n| format!("{} {}. ", letters(at * 50 + n), letters(at * 70 + n + 9)))
                        .collect();
                    let notes = notes.concat();
                    request.system.insert(0, notes);
                }
                in_system(2)
            },
        ),
        fault(
            "status as second message",
            &["status-text-not-last", "running-counter", "volatile-text"],
            Anything,
            BOTH,
            |c| {
                for (at, request) in c.requests.iter_mut().enumerate().skip(1) {
                    let open: Vec<String> = (0..=at % 4)
                        .map(|n| {
                            format!(
                                "{} is {}",
                                letters(n),
                                ["open", "changed", "saved"][(at + n) % 3]
                            )
                        })
                        .collect();
                    request.messages.insert(1, json!({"role": "user", "content": format!("## Workspace status\n{}", open.join("\n"))}));
                }
                injected(2, &["messages"])
            },
        ),
        fault(
            "tool result as user",
            &["tool-result-as-user"],
            Calls,
            CHAT,
            |c| {
                let mut at = None;
                for (number, request) in c.requests.iter_mut().enumerate() {
                    for message in request.messages.iter_mut().filter(|m| m["role"] == "tool") {
                        let said = message["content"].clone();
                        *message = json!({"role": "user", "content": format!("Result: {}", said.as_str().unwrap_or_default())});
                        at = at.or(Some(number));
                    }
                }
                injected(at?, &["messages"])
            },
        ),
        fault(
            "no marks",
            &["missing-breakpoint"],
            Anything,
            MESSAGES,
            |c| {
                let at = costs(c, 1100)?;
                marks(c, Marks::None, at)
            },
        ),
        fault(
            "six marks",
            &["too-many-breakpoints"],
            Anything,
            MESSAGES,
            |c| {
                let from = grown(c, 12)?;
                marks(c, Marks::Six, from)
            },
        ),
        fault(
            "lifetimes out of order",
            &["lifetime-order"],
            Anything,
            MESSAGES,
            |c| marks(c, Marks::WrongOrder, 0),
        ),
        fault(
            "mark on a short system prompt",
            &["prefix-below-minimum", "breakpoint-left-behind"],
            Anything,
            MESSAGES,
            |c| {
                for request in &mut c.requests {
                    request.system = vec!["You are a helpful assistant. Be brief.".into()];
                    request.tools.clear();
                }
                let at = costs(c, 2150)?;
                marks(c, Marks::SystemOnly, at)
            },
        ),
        fault(
            "marks stay on the system prompt",
            &["breakpoint-left-behind", "prefix-below-minimum"],
            Anything,
            MESSAGES,
            |c| {
                let at = costs(c, head(c) + 2200)?;
                marks(c, Marks::SystemOnly, at)
            },
        ),
        fault(
            "marks out of reach",
            &["breakpoint-out-of-reach"],
            Anything,
            MESSAGES,
            |c| {
                let from = grown(c, 6)?;
                for request in &mut c.requests {
                    request.marks = Marks::LastOnly;
                }
                let mut extra = Vec::new();
                for n in 0..26 {
                    let role = if n % 2 == 0 { "assistant" } else { "user" };
                    extra.push(
                        json!({"role": role, "content": format!("Note {n}: {}", letters(n))}),
                    );
                }
                let place = c.requests[from - 1].messages.len();
                for request in c.requests.iter_mut().skip(from) {
                    let at = place.min(request.messages.len());
                    request.messages.splice(at..at, extra.clone());
                }
                injected(from, &["messages"])
            },
        ),
        fault(
            "mark behind the clock",
            &["breakpoint-after-volatile-block", "volatile-timestamp"],
            Tools,
            MESSAGES,
            |c| {
                for (at, request) in c.requests.iter_mut().enumerate() {
                    let (h, m, s) = clock(at);
                    request.marks = Marks::LastOnly;
                    request
                        .system
                        .push(format!("It is 2026-11-30 {h}:{m:02}:{s:02}."));
                }
                injected(1, &["system"])
            },
        ),
        fault(
            "late requests",
            &["lifetime-shorter-than-gap"],
            Anything,
            MESSAGES,
            |c| {
                for (at, request) in c.requests.iter_mut().enumerate() {
                    request.time = at as u64 * 480;
                }
                injected(3, &[])
            },
        ),
        // Fleet.
        fault(
            "round robin over keys",
            &["split-over-keys"],
            Anything,
            BOTH,
            |c| {
                for (at, request) in c.requests.iter_mut().enumerate() {
                    request.key = u8::try_from(at % 3).unwrap();
                }
                injected(2, &[])
            },
        ),
        fault(
            "round robin over regions",
            &["split-over-regions"],
            Anything,
            BOTH,
            |c| {
                for (at, request) in c.requests.iter_mut().enumerate() {
                    request.region = u8::try_from(at % 2).unwrap();
                }
                injected(2, &[])
            },
        ),
        fault("another model", &["model-switched"], Anything, CHAT, |c| {
            let half = c.requests.len() / 2;
            for request in c.requests.iter_mut().skip(half) {
                request.model = "gpt-4.1-mini".into();
            }
            injected(half, &[])
        }),
        fault(
            "another effort",
            &["effort-switched"],
            Anything,
            CHAT,
            |c| {
                let half = c.requests.len() / 2;
                for (at, request) in c.requests.iter_mut().enumerate() {
                    let effort = if at < half { "high" } else { "low" };
                    request
                        .fields
                        .insert("reasoning_effort".into(), json!(effort));
                }
                injected(half, &[])
            },
        ),
        fault(
            "another tool choice",
            &["tool-choice-switched"],
            Tools,
            MESSAGES,
            |c| {
                let half = c.requests.len() / 2;
                for request in c.requests.iter_mut().skip(half) {
                    request
                        .fields
                        .insert("tool_choice".into(), json!({"type": "any"}));
                }
                injected(half, &[])
            },
        ),
        fault(
            "flapping fallback",
            &["fallback-flapping"],
            Anything,
            BOTH,
            |c| {
                for (at, request) in c.requests.iter_mut().enumerate() {
                    request.fallback = at % 2 == 1;
                }
                injected(2, &[])
            },
        ),
        fault(
            "side call under the same key",
            &["cache-key-divergence"],
            Anything,
            CHAT,
            |c| {
                for request in &mut c.requests {
                    request
                        .fields
                        .insert("prompt_cache_key".into(), json!("s1"));
                }
                let at = c.requests.len() / 2;
                let mut side = c.requests[at].clone();
                side.tools.clear();
                side.system.clear();
                side.messages = vec![
                    json!({"role": "user", "content": "Summarise the work so far in one line: the parser was read and mended."}),
                ];
                c.requests.insert(at, side);
                injected(at, &[])
            },
        ),
    ]
}

fn text_in(value: &mut Value, before: &str) {
    let said = value.as_str().unwrap_or_default();
    *value = format!("{before}{said}").into();
}

fn marks(conversation: &mut Conversation, marks: Marks, at: usize) -> Option<Injected> {
    for request in &mut conversation.requests {
        request.marks = marks;
    }
    injected(at, &[])
}

/// Tokens of tools and system prompt, at four bytes a token.
fn head(conversation: &Conversation) -> usize {
    let mut first = conversation.requests[0].clone();
    first.messages.clear();
    first.body(Form::Messages).len() / 4
}

/// The first request before which more than `tokens` were sent, at four bytes a token: before, a
/// mark in the wrong place costs nothing.
fn costs(conversation: &Conversation, tokens: usize) -> Option<usize> {
    let long = |request: &Request| request.body(Form::Messages).len() > tokens * 4 + 400;
    conversation.requests.iter().position(long).map(|at| at + 1)
}

/// The arguments of the first call that `change` can change, from the request on at which it is old.
fn arguments(
    conversation: &mut Conversation,
    change: impl Fn(&str) -> Option<String>,
) -> Option<Injected> {
    let last = conversation.requests.last()?.clone();
    let place = last.messages.iter().position(|message| {
        message["tool_calls"][0]["function"]["arguments"]
            .as_str()
            .is_some_and(|raw| change(raw).is_some())
    })?;
    let first = grown(conversation, place + 1)? + 1;
    for request in conversation.requests.iter_mut().skip(first) {
        let arguments = &mut request.messages[place]["tool_calls"][0]["function"]["arguments"];
        let changed = change(arguments.as_str().unwrap()).unwrap();
        *arguments = changed.into();
    }
    (first < conversation.requests.len()).then(|| Injected {
        at: first,
        paths: vec![chat_path(&last, place)],
    })
}
