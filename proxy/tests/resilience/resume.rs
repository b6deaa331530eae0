//! A client whose connection broke gets the rest of its stream.

use whippletree_loadtest::client::Answer;

use crate::world::{World, ask_stream, code, streams, text_of};

const RESUME: &str = "resume = true";

/// The ids of all events.
fn ids(answer: &Answer) -> Vec<String> {
    let text = answer.text();
    let id = |line: &str| line.strip_prefix("id: ").map(str::to_owned);
    text.lines().filter_map(id).collect()
}

#[tokio::test]
async fn the_rest_of_a_stream_is_given_to_who_names_the_last_event() {
    let world = World::new([streams(&["a", "b", "c", "d"], 150)], RESUME).await;
    let mut call = ask_stream("q");
    call.leave_after_events = Some(2);
    let first = world.send(&call).await;
    let seen = ids(&first);
    assert_eq!((text_of(&first).as_str(), seen.len()), ("ab", 2));

    let back = ask_stream("q").header("last-event-id", &seen[1]);
    let rest = world.send(&back).await;
    assert_eq!(text_of(&rest), "cd");
    assert!(rest.text().ends_with("data: [DONE]\n\n"));
    assert!(
        rest.header("x-wt-repeats")
            .unwrap()
            .starts_with("resumed; of=")
    );
    assert!(ids(&rest).iter().all(|id| !seen.contains(id)));
    assert_eq!(world.vendor.requests().len(), 1);

    // Once it has ended it can be had again, from the end too.
    let last = ids(&rest).last().cloned().unwrap();
    let nothing = world
        .send(&ask_stream("q").header("last-event-id", &last))
        .await;
    assert_eq!((nothing.status, nothing.text().as_str()), (200, ""));
    let records = world.exchanges(3).await;
    let paid = records.iter().filter(|r| r["cost_usd"] != "0").count();
    assert_eq!(paid, 1);
}

#[tokio::test]
async fn another_body_or_an_unknown_id_gets_no_stream_and_no_bill() {
    let world = World::new([streams(&["a"], 0)], RESUME).await;
    let id = ids(&world.send(&ask_stream("q")).await).remove(0);
    for (text, id) in [("another", id.as_str()), ("q", "x.1"), ("q", "nonsense")] {
        let refused = world
            .send(&ask_stream(text).header("last-event-id", id))
            .await;
        assert_eq!(
            (refused.status, code(&refused).as_str()),
            (409, "nothing_to_resume")
        );
    }
    assert_eq!(world.vendor.requests().len(), 1);
}

#[tokio::test]
async fn without_resume_no_byte_is_added() {
    let world = World::new([streams(&["a"], 0)], "").await;
    let answer = world
        .send(&ask_stream("q").header("last-event-id", "x.1"))
        .await;
    assert_eq!((answer.status, ids(&answer).len()), (200, 0));
}
