//! Names of months and days, in the languages that prompts are written in, and counts of seconds.

/// Names and usual abbreviations of months, lower case: English, German, French, Spanish, Italian,
/// Portuguese, Dutch, Russian, Polish, Turkish.
const MONTHS: [&str; 12] = [
    "january jan januar jänner janvier janv enero ene gennaio gen janeiro januari января янв stycznia ocak",
    "february feb februar février fevrier févr fevr febrero febbraio fevereiro fev februari февраля фев lutego şubat",
    "march mar märz maerz mär mars marzo março maart mrt марта мар marca mart",
    "april apr avril avr abril abr aprile апреля апр kwietnia nisan",
    "may mai mayo maggio mag maio mei мая maja mayıs",
    "june jun juni juin junio giugno giu junho июня июн czerwca haziran",
    "july jul juli juillet juil julio luglio lug julho июля июл lipca temmuz",
    "august aug août aout agosto ago augustus августа авг sierpnia ağustos",
    "september sep sept septembre septiembre settembre set setembro сентября сен września eylül",
    "october oct oktober okt octobre octubre ottobre ott outubro out октября окт października ekim",
    "november nov novembre noviembre novembro ноября ноя listopada kasım",
    "december dec dezember dez décembre decembre déc diciembre dic dicembre dezembro декабря дек grudnia aralık",
];

const DAYS: [&str; 7] = [
    "monday mon montag lundi lunes lunedì segunda maandag понедельник poniedziałek pazartesi 月曜日 월요일 星期一 周一 礼拜一",
    "tuesday tue tues dienstag mardi martes martedì terça dinsdag вторник wtorek salı 火曜日 화요일 星期二 周二 礼拜二",
    "wednesday wed mittwoch mercredi miércoles mercoledì quarta woensdag среда środa çarşamba 水曜日 수요일 星期三 周三 礼拜三",
    "thursday thu thur thurs donnerstag jeudi jueves giovedì quinta donderdag четверг czwartek perşembe 木曜日 목요일 星期四 周四 礼拜四",
    "friday fri freitag vendredi viernes venerdì sexta vrijdag пятница piątek cuma 金曜日 금요일 星期五 周五 礼拜五",
    "saturday sat samstag sonnabend samedi sábado sabato zaterdag суббота sobota cumartesi 土曜日 토요일 星期六 周六 礼拜六",
    "sunday sun sonntag dimanche domingo domenica zondag воскресенье niedziela pazar 日曜日 일요일 星期日 星期天 周日 礼拜日",
];

fn names(list: &[&str], word: &str) -> bool {
    if word.len() < 3 || word.len() > 24 {
        return false;
    }
    let equal = |name: &str| {
        let mut a = name.chars();
        let mut b = word.chars().flat_map(char::to_lowercase);
        loop {
            match (a.next(), b.next()) {
                (None, None) => return true,
                (x, y) if x == y => {}
                _ => return false,
            }
        }
    };
    list.iter().any(|row| row.split(' ').any(equal))
}

/// Whether a word names a month.
pub(crate) fn is_month(word: &str) -> bool {
    names(&MONTHS, word)
}

/// Whether a word names a day of the week.
pub(crate) fn is_weekday(word: &str) -> bool {
    names(&DAYS, word)
}

/// Whether a word tells the half of the day or the zone, as it stands beside a time.
pub(crate) fn is_beside_time(word: &str) -> bool {
    const WORDS: [&str; 31] = [
        "t", "z", "at", "on", "am", "pm", "um", "à", "a", "le", "в", "utc", "gmt", "est", "edt",
        "cst", "pst", "pdt", "cet", "cest", "jst", "上午", "下午", "오전", "오후", "午前", "午後",
        "г", "às", "il", "las",
    ];
    word.len() <= 9 && WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// The value of a digit in any script that prompts use.
pub(crate) fn digit(character: char) -> Option<u32> {
    const ZEROS: [u32; 6] = [0x30, 0x660, 0x6f0, 0x966, 0xe50, 0xff10];
    let point = u32::from(character);
    ZEROS
        .iter()
        .find_map(|zero| point.checked_sub(*zero).filter(|value| *value < 10))
}

/// The value of a Chinese numeral; ten is 十.
pub(crate) fn numeral(character: char) -> Option<u32> {
    const NUMERALS: [char; 10] = ['〇', '一', '二', '三', '四', '五', '六', '七', '八', '九'];
    let place = NUMERALS.iter().position(|numeral| *numeral == character);
    match character {
        '零' => Some(0),
        '十' => Some(10),
        '廿' => Some(20),
        _ => place.and_then(|value| u32::try_from(value).ok()),
    }
}

/// Whether a number is a count of seconds, or of a thousandth, millionth or billionth of one, since
/// 1970, between 2001 and 2096.
pub(crate) fn is_epoch(number: &str) -> bool {
    let whole = number.split('.').next().unwrap_or_default();
    let plausible = |scale: u64| {
        let value = whole.parse::<u64>().unwrap_or(0) / scale;
        (1_000_000_000..4_000_000_000).contains(&value)
    };
    number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
        && match whole.len() {
            10 => plausible(1),
            13 => plausible(1_000),
            16 => plausible(1_000_000),
            19 => plausible(1_000_000_000),
            _ => false,
        }
}
