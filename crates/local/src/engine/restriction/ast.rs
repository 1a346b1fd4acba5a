//! The tree that the parser makes: names and types are not resolved yet.

/// A node and the byte of the text at which it starts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) at: usize,
    /// Levels of nodes, this one included.
    pub(super) depth: usize,
    pub(super) ast: Ast,
}

/// `= != < <= > >=`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Comparison {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Comparison::Eq => "=",
            Comparison::Ne => "!=",
            Comparison::Lt => "<",
            Comparison::Le => "<=",
            Comparison::Gt => ">",
            Comparison::Ge => ">=",
        }
    }
}

/// Binary operators that are not comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
}

impl Arithmetic {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Sub => "-",
            Arithmetic::Mul => "*",
            Arithmetic::Div => "/",
            Arithmetic::BitAnd => "&",
            Arithmetic::BitOr => "|",
            Arithmetic::BitXor => "^",
            Arithmetic::ShiftLeft => "<<",
            Arithmetic::ShiftRight => ">>",
        }
    }
}

/// Whether a predicate is negated (`NOT IN`, `IS NOT NULL`, …).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sense {
    Plain,
    Negated,
}

/// The right-hand side of `IS`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Is {
    Null,
    True,
    False,
    DistinctFrom(Box<Node>),
}

/// The right-hand side of `IN`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum InSource {
    List(Vec<Node>),
    Unnest(Box<Node>),
}

/// One expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ast {
    Null,
    Bool(bool),
    /// As written, with a minus in front where one was.
    Integer(String),
    Float(String),
    Text(String),
    Bytes(Vec<u8>),
    /// `DATE '…'` and the like; the type's name in upper case.
    Typed(String, String),
    /// `RANGE<T> '…'`.
    RangeLiteral(String, String),
    /// `INTERVAL '…' YEAR [TO SECOND]`.
    IntervalLiteral(String, String, Option<String>),
    /// `INTERVAL n DAY`.
    Interval(Box<Node>, String),
    /// `[1, 2]`
    Array(Vec<Node>),
    Path(Vec<String>),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Negate(Box<Node>),
    BitNot(Box<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    Arithmetic(Arithmetic, Box<Node>, Box<Node>),
    Concat(Box<Node>, Box<Node>),
    Like(Box<Node>, Box<Node>, Sense),
    Between(Box<Node>, Box<Node>, Box<Node>, Sense),
    In(Box<Node>, InSource, Sense),
    Is(Box<Node>, Is, Sense),
    Case {
        operand: Option<Box<Node>>,
        whens: Vec<(Node, Node)>,
        otherwise: Option<Box<Node>>,
    },
    Cast {
        value: Box<Node>,
        type_name: String,
        /// NULL instead of an error.
        safe: bool,
    },
    Extract {
        part: DatePart,
        from: Box<Node>,
        zone: Option<Box<Node>>,
    },
    /// A function by its name in upper case.
    Call {
        name: String,
        arguments: Vec<Node>,
        /// Called as `SAFE.name`.
        safe: bool,
    },
}

/// A date part as written: its name and, in `WEEK(MONDAY)`, the weekday.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DatePart {
    pub(super) name: String,
    pub(super) weekday: Option<String>,
}

impl Ast {
    /// Calls `see` with every direct child.
    pub(super) fn for_each_child<'a>(&'a self, mut see: impl FnMut(&'a Node)) {
        match self {
            Ast::Null
            | Ast::Bool(_)
            | Ast::Integer(_)
            | Ast::Float(_)
            | Ast::Text(_)
            | Ast::Bytes(_)
            | Ast::Typed(_, _)
            | Ast::RangeLiteral(_, _)
            | Ast::IntervalLiteral(_, _, _)
            | Ast::Path(_) => {}
            Ast::Interval(a, _)
            | Ast::Not(a)
            | Ast::Negate(a)
            | Ast::BitNot(a)
            | Ast::Cast { value: a, .. } => see(a),
            Ast::Array(all) | Ast::And(all) | Ast::Or(all) | Ast::Call { arguments: all, .. } => {
                all.iter().for_each(see);
            }
            Ast::Compare(_, a, b)
            | Ast::Arithmetic(_, a, b)
            | Ast::Concat(a, b)
            | Ast::Like(a, b, _) => {
                see(a);
                see(b);
            }
            Ast::Between(a, b, c, _) => {
                see(a);
                see(b);
                see(c);
            }
            Ast::In(a, source, _) => {
                see(a);
                match source {
                    InSource::List(all) => all.iter().for_each(see),
                    InSource::Unnest(array) => see(array),
                }
            }
            Ast::Is(a, what, _) => {
                see(a);
                if let Is::DistinctFrom(b) = what {
                    see(b);
                }
            }
            Ast::Case {
                operand,
                whens,
                otherwise,
            } => {
                operand.iter().for_each(|n| see(n));
                for (condition, value) in whens {
                    see(condition);
                    see(value);
                }
                otherwise.iter().for_each(|n| see(n));
            }
            Ast::Extract { from, zone, .. } => {
                see(from);
                zone.iter().for_each(|n| see(n));
            }
        }
    }
}
