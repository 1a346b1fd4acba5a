use super::*;

fn s(v: &str) -> Value<'static> {
    Value::text(v)
}
fn i(v: i64) -> Value<'static> {
    Value::Int64(v)
}

#[test]
fn positions_are_characters() {
    assert_eq!(substr_call(&[s("äöü"), i(2)]).unwrap(), s("öü"));
    assert_eq!(substr_call(&[s("hello"), i(-2)]).unwrap(), s("lo"));
    assert_eq!(substr_call(&[s("hello"), i(0), i(2)]).unwrap(), s("he"));
    assert_eq!(substr_call(&[s("abc"), i(-5), i(2)]).unwrap(), s("ab"));
    assert_eq!(substr_call(&[s("abc"), i(9)]).unwrap(), s(""));
    assert!(substr_call(&[s("abc"), i(1), i(-1)]).is_err());
    assert_eq!(instr(&[s("banana"), s("an"), i(1), i(2)]).unwrap(), i(4));
    assert_eq!(instr(&[s("banana"), s("an"), i(-1), i(1)]).unwrap(), i(4));
    assert_eq!(instr(&[s("banana"), s("an"), i(-3), i(1)]).unwrap(), i(4));
    assert_eq!(instr(&[s("banana"), s("an"), i(-4), i(1)]).unwrap(), i(2));
    assert_eq!(instr(&[s("banana"), s("x")]).unwrap(), i(0));
}

#[test]
fn pads_and_trims() {
    assert_eq!(pad(&[s("ab"), i(5), s("xy")], "LPAD").unwrap(), s("xyxab"));
    assert_eq!(pad(&[s("abc"), i(2)], "RPAD").unwrap(), s("ab"));
    assert!(pad(&[s("abc"), i(5), s("")], "RPAD").is_err());
    let both = Sides {
        left: true,
        right: true,
    };
    assert_eq!(trim(&[s("  a b ")], both).unwrap(), s("a b"));
    assert_eq!(trim(&[s("xxaxx"), s("x")], both).unwrap(), s("a"));
    assert_eq!(trim(&[s("   ")], both).unwrap(), s(""));
}

#[test]
fn pieces() {
    assert_eq!(split(&[s(""), s(",")]).unwrap(), Value::Array(vec![s("")]));
    assert_eq!(
        split(&[s("ab"), s("")]).unwrap(),
        Value::Array(vec![s("a"), s("b")])
    );
    assert_eq!(
        translate(&[s("hello"), s("el"), s("ip")]).unwrap(),
        s("hippo")
    );
    assert_eq!(replace(&[s("abc"), s(""), s("x")]).unwrap(), s("abc"));
}
