//! Prices out of decimal text, without a float in between.
//!
//! The catalogues write `1.25e-07` dollars a token or `0.125` dollars a million. Both are 125,000
//! picodollars a token; a float would make the first 124,999.99999999999.

/// Whether a price is what was written, or the nearest picodollar to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// As written.
    Exact,
    /// Rounded: the text was finer than a picodollar (mostly a float that somebody printed).
    Rounded,
}

/// The text is no price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a decimal number of dollars, zero or more")]
pub struct InvalidDecimal;

/// Picodollars for one token, when `text` dollars are the price of 10^`per_exponent` tokens.
///
/// # Errors
/// [`InvalidDecimal`] for what is no decimal number, negative, or past nine million dollars a token.
pub fn pico_per_token(text: &str, per_exponent: i32) -> Result<(i64, Exactness), InvalidDecimal> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, signed(exponent).ok_or(InvalidDecimal)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return Err(InvalidDecimal);
    }
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok((0, Exactness::Exact));
    }
    let places = i32::try_from(fraction.len()).map_err(|_| InvalidDecimal)?;
    // Dollars to picodollars is 10^12.
    let shift = exponent
        .checked_sub(places)
        .and_then(|shift| shift.checked_add(12)?.checked_sub(per_exponent))
        .ok_or(InvalidDecimal)?;
    shifted(digits, shift)
}

/// A whole number with at most one sign.
fn signed(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// `digits` times 10^`shift`, rounded half up.
fn shifted(digits: &str, shift: i32) -> Result<(i64, Exactness), InvalidDecimal> {
    if shift >= 0 {
        let zeros = usize::try_from(shift).map_err(|_| InvalidDecimal)?;
        if digits.len().saturating_add(zeros) > 19 {
            return Err(InvalidDecimal);
        }
        let text = format!("{digits}{}", "0".repeat(zeros));
        return Ok((text.parse().map_err(|_| InvalidDecimal)?, Exactness::Exact));
    }
    let cut = usize::try_from(shift.unsigned_abs()).map_err(|_| InvalidDecimal)?;
    let split = digits.len().saturating_sub(cut);
    let (kept, dropped) = digits.split_at(split);
    // Digits that stand for less than a tenth of a picodollar round to nothing.
    let half = cut <= digits.len() && dropped.starts_with(['5', '6', '7', '8', '9']);
    let kept: i64 = match kept {
        "" => 0,
        kept => kept.parse().map_err(|_| InvalidDecimal)?,
    };
    let exactness = if dropped.bytes().all(|b| b == b'0') {
        Exactness::Exact
    } else {
        Exactness::Rounded
    };
    let value = kept.checked_add(i64::from(half)).ok_or(InvalidDecimal)?;
    Ok((value, exactness))
}
