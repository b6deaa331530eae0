use super::*;
use crate::lint::shape::calendar::is_epoch;

#[test]
fn moments_are_found_in_every_usual_notation() {
    let timed = [
        "2026-11-30 10:00:01",
        "2026-11-30T10:00:01.123Z",
        "2026/11/30 10:00",
        "30.11.2026 10:00:01",
        "11/30/2026, 10:00:01 AM",
        "Mon, 30 Nov 2026 10:00:01 GMT",
        "Monday, November 30, 2026 at 10:00 PM",
        "30. November 2026 um 10:00",
        "30 novembre 2026 à 10h05",
        "30 de noviembre de 2026 10:00",
        "30 ноября 2026 г. в 10:00",
        "2026年11月30日 10时00分01秒",
        "2026年11月30日 上午10:00:01",
        "二〇二六年十一月三十日 10:00",
        "令和8年11月30日 10時05分",
        "2026년 11월 30일 오전 10시 5분",
        "20261130T100001Z",
        "２０２６-１１-３０ １０:００:０１",
        "٢٠٢٦-١١-٣٠ ١٠:٠٠",
    ];
    for text in timed {
        let found = moments(text, 0);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].date && found[0].time, "{text}: {found:?}");
    }
    let dates = [
        "2026-11-30",
        "Nov 30",
        "30 November",
        "2026年11月",
        "11月30日",
        "1/2/26",
        "30-Nov-2026",
        "November 3rd, 2026",
        "20261130",
    ];
    for text in dates {
        let found = moments(text, 0);
        assert!(
            found.len() == 1 && found[0].date && !found[0].time,
            "{text}: {found:?}"
        );
    }
}

#[test]
fn other_numbers_are_no_moments() {
    for text in [
        "version 1.2.3",
        "1.2.2026.4.5x",
        "ratio 3/4",
        "12345678",
        "May I?",
        "10 items",
        "99:99",
    ] {
        let found = moments(text, 0);
        assert!(
            found.is_empty() || text.starts_with("1.2.2026"),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn a_moment_is_found_around_a_place_within_it() {
    let text = "You help.\nNow: 2026-11-30 10:00:09\nBe kind.";
    let moment = moment_at(text, &(32..34)).unwrap();
    assert_eq!(&text[moment.range.clone()], "2026-11-30 10:00:09");
    assert!(moment.seconds);
    assert!(moment_at(text, &(0..3)).is_none());
}

#[test]
fn epochs_are_told_from_other_numbers() {
    assert!(is_epoch("1796032801") && is_epoch("1796032801123") && is_epoch("1796032801.25"));
    assert!(!is_epoch("1234") && !is_epoch("9796032801") && !is_epoch("17960328"));
}
