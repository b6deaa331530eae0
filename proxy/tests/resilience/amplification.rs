//! Two layers that retry do not multiply.

use whippletree_loadtest::client::Answer;
use whippletree_loadtest::vendor::{End, Reply};

use crate::world::{World, ask, counted, fails, gateway, says};

/// A client that retries whatever it is told, counting.
async fn stubborn(world: &World, text: &str, tries: u32) -> Answer {
    let mut count = 0;
    loop {
        let answer = world.send(&counted(ask(text), count)).await;
        count += 1;
        if answer.status == 200 || count == tries {
            return answer;
        }
    }
}

#[tokio::test]
async fn stubborn_clients_and_a_flapping_vendor_are_held_to_the_gateways_limit() {
    const LIMIT: usize = 3;
    const CLIENTS: usize = 40;
    let route = "retry = { max_attempts = 3, base = \"1ms\", cap = \"2ms\", budget = { ratio = 1.0, min_per_second = 1000 } }
breaker = { failure_ratio = 1.0, min_requests = 1000000 }";
    let cut = || Reply::none(End::Reset);
    let bad = (0..12).flat_map(|_| [fails(500), fails(503), cut(), says("up"), fails(502), cut()]);
    let world = World::new(bad.chain([fails(500)]), route).await;
    let clients = (0..CLIENTS).map(|number| {
        let text = format!("client {number}");
        let world = &world;
        async move { stubborn(world, &text, 4).await }
    });
    let mut answered = 0;
    for answer in futures(clients).await {
        answered += usize::from(answer.status == 200);
    }
    assert!(
        answered > 0 && answered < CLIENTS,
        "{answered} were answered"
    );
    let requests = world.vendor.requests();
    for number in 0..CLIENTS {
        let text = format!("\"client {number}\"");
        let sent = |r: &&whippletree_loadtest::vendor::Request| {
            String::from_utf8_lossy(&r.body).contains(&text)
        };
        let sends = requests.iter().filter(sent).count();
        assert!(
            (1..=LIMIT).contains(&sends),
            "client {number}: {sends} sends"
        );
    }
}

/// All at once, on this thread.
async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut set: Vec<_> = all.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|cx| {
        set.retain_mut(|future| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if set.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done
}

#[tokio::test]
async fn behind_another_gateway_the_inner_one_does_not_retry() {
    let route = "retry = { max_attempts = 3, base = \"1ms\", ambiguous = \"always\" }";
    let inner = World::new([fails(500)], route).await;
    let (outer, _directory) = gateway(inner.gateway.data_address(), route);
    for call in [ask("q"), ask("r").header("idempotency-key", "k")] {
        let before = inner.vendor.requests().len();
        let answer = call.send(outer.data_address()).await;
        assert_eq!(answer.status, 502);
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert_eq!(inner.vendor.requests().len() - before, 3);
    }
}
