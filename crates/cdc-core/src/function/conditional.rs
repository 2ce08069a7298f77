//! Functions that choose among their arguments (MySQL manual 14.4.2 and 14.5).

use super::Function;
use crate::expr::eval::{Binder, BoundExpr};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "coalesce",
        aliases: &[],
        signature: "coalesce(x, ...)",
        help: "the first argument that is not NULL",
        examples: &[("coalesce(null, 'a', 'b')", "'a'")],
        refused: None,
        arity: (1, None),
        bind: |binder, args| binder.coalesce(args.args, &args.span),
    },
    Function {
        name: "ifnull",
        aliases: &[],
        signature: "ifnull(x, y)",
        help: "x, or y where x is NULL",
        examples: &[("ifnull(null, 5)", "5")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| binder.coalesce(args.args, &args.span),
    },
    Function {
        name: "nullif",
        aliases: &[],
        signature: "nullif(x, y)",
        help: "NULL where x equals y, else x",
        examples: &[("nullif(1, 1)", "NULL"), ("nullif(1, 2)", "1")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| {
            let [a, b]: [BoundExpr; 2] = args.args.try_into().ok()?;
            binder.null_if(a, b, &args.span)
        },
    },
    Function {
        name: "if",
        aliases: &[],
        signature: "if(condition, then, otherwise)",
        help: "then where the condition is true, else (also for NULL) otherwise",
        examples: &[("if(1 > 0, 'a', 'b')", "'a'")],
        refused: None,
        arity: (3, Some(3)),
        bind: |binder, args| {
            let [when, then, otherwise]: [BoundExpr; 3] = args.args.try_into().ok()?;
            binder.conditional(when, then, otherwise, &args.span)
        },
    },
    Function {
        name: "isnull",
        aliases: &[],
        signature: "isnull(x)",
        help: "1 where x is NULL, else 0",
        examples: &[("isnull(null)", "1")],
        refused: None,
        arity: (1, Some(1)),
        bind: |_, args| Some(Binder::is_null(args.args.into_iter().next()?, &args.span)),
    },
    Function {
        name: "greatest",
        aliases: &[],
        signature: "greatest(x, y, ...)",
        help: "the greatest argument; NULL if one is NULL",
        examples: &[("greatest(1, 2.5)", "2.5")],
        refused: None,
        arity: (2, None),
        bind: |binder, args| binder.extreme(true, args.args, &args.span),
    },
    Function {
        name: "least",
        aliases: &[],
        signature: "least(x, y, ...)",
        help: "the least argument; NULL if one is NULL",
        examples: &[("least(3, 2, 5)", "2")],
        refused: None,
        arity: (2, None),
        bind: |binder, args| binder.extreme(false, args.args, &args.span),
    },
];
