//! `cel.bind`, and the comprehensions with two variables: `all`, `exists`, `existsOne`, `transformList`, `transformMap`, `transformMapEntry`.
//!
//! The engine binds one variable in a loop. So a loop with two goes over the keys of its range, which is bound to a name that no text can
//! spell, and binds the value that belongs to the key where it is needed:
//!
//! ```text
//! range.all(k, v, p)   is   bind(@of, range, @keys(@of).all(k, bind(v, @of[k], p)))
//! ```
//!
//! An inner loop hides the `@of` of the outer one, but not the outer variables, which have their values by then. Maps are gathered as a
//! list, in which the engine appends in place, and become maps at the end.

use super::{Arguments, Returned, argument, function, units};
use crate::budget::charge;
use crate::charged;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators};
use cel::common::types::{CelInt, CelList, CelMap, CelMapKey, CelUInt, DYN_TYPE, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::parser::{Macro, MacroExprHelper};
use cel::{DeclarationError, Env, ExecutionError, ParseError};
use std::collections::HashMap;

/// `@keys(x)`: the indexes of a list, the sorted keys of a map.
pub(crate) const KEYS: &str = "@keys";
/// `@mapOfPairs(list)`: the map whose entries are lists of a key and a value.
const MAP_OF_PAIRS: &str = "@mapOfPairs";
/// `@mapOfMaps(list)`: the map that has the entries of all maps of a list; none may have a key of another one.
const MAP_OF_MAPS: &str = "@mapOfMaps";
/// The range of a loop.
const RANGE: &str = "@of";
/// As the standard macros name it.
const ACCUMULATOR: &str = "@result";

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    function(env, KEYS, vec![DYN_TYPE], keys)?;
    function(env, MAP_OF_PAIRS, vec![LIST_TYPE], map_of_pairs)?;
    function(env, MAP_OF_MAPS, vec![LIST_TYPE], map_of_maps)?;
    env.add_macro(Macro::receiver("bind", 3, bind_macro))?;
    for (name, arguments, body) in [
        ("all", 3, Body::All),
        ("exists", 3, Body::Exists),
        ("existsOne", 3, Body::ExistsOne),
        ("exists_one", 3, Body::ExistsOne),
        ("transformList", 3, Body::List),
        ("transformList", 4, Body::List),
        ("transformMap", 3, Body::Map),
        ("transformMap", 4, Body::Map),
        ("transformMapEntry", 3, Body::MapEntry),
        ("transformMapEntry", 4, Body::MapEntry),
    ] {
        let expand =
            move |helper: &mut MacroExprHelper<'_>, target: &mut Option<IdedExpr>, args: &mut Vec<IdedExpr>| {
                Loop::of(helper, target, args).map(|two| two.map(|two| two.expanded(body)))
            };
        env.add_macro(Macro::receiver(name, arguments, expand))?;
    }
    Ok(())
}

/// `cel.bind(name, value, expression)`. `bind` of anything else is no macro.
fn bind_macro(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> Result<Option<IdedExpr>, ParseError> {
    if !matches!(target.as_ref().map(|target| &target.expr), Some(Expr::Ident(name)) if name == "cel") {
        return Ok(None);
    }
    let Some([name, value, body]) = taken(args) else {
        return Ok(None);
    };
    let name = simple_name(helper, name)?;
    Ok(Some(bind(helper, name, value, body)))
}

/// The arguments, if there are so many.
fn taken<const N: usize>(args: &mut Vec<IdedExpr>) -> Option<[IdedExpr; N]> {
    (args.len() == N).then(|| std::mem::take(args).try_into().ok())?
}

fn simple_name(helper: &MacroExprHelper<'_>, expr: IdedExpr) -> Result<String, ParseError> {
    match expr.expr {
        Expr::Ident(name) if !name.starts_with('.') => Ok(name),
        _ => Err(helper.new_error(expr.id, "argument must be a simple name")),
    }
}

/// `expression` with `value` under `name`: a loop that never turns, whose accumulator it is.
fn bind(helper: &mut MacroExprHelper<'_>, name: String, value: IdedExpr, expression: IdedExpr) -> IdedExpr {
    let comprehension = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_init: value,
        loop_cond: helper.next_expr(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: ident(helper, &name),
        accu_var: name,
        result: expression,
    };
    helper.next_expr(Expr::Comprehension(Box::new(comprehension)))
}

fn ident(helper: &mut MacroExprHelper<'_>, name: &str) -> IdedExpr {
    helper.next_expr(Expr::Ident(name.to_owned()))
}

fn call(helper: &mut MacroExprHelper<'_>, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr {
        func_name: function.to_owned(),
        target: None,
        args,
    }))
}

/// What a loop makes of its turns.
#[derive(Clone, Copy)]
enum Body {
    All,
    Exists,
    ExistsOne,
    List,
    Map,
    MapEntry,
}

/// A loop with two variables.
struct Loop<'h, 'a> {
    helper: &'h mut MacroExprHelper<'a>,
    range: IdedExpr,
    key: String,
    value: String,
    filter: Option<IdedExpr>,
    body: IdedExpr,
}

impl<'h, 'a> Loop<'h, 'a> {
    fn of(
        helper: &'h mut MacroExprHelper<'a>,
        target: &mut Option<IdedExpr>,
        args: &mut Vec<IdedExpr>,
    ) -> Result<Option<Self>, ParseError> {
        let Some(range) = target.take() else { return Ok(None) };
        let mut args = std::mem::take(args).into_iter();
        let (Some(key), Some(value), Some(third)) = (args.next(), args.next(), args.next()) else {
            return Ok(None);
        };
        let (filter, body) = match args.next() {
            Some(fourth) => (Some(third), fourth),
            None => (None, third),
        };
        let second = value.id;
        let (key, value) = (simple_name(helper, key)?, simple_name(helper, value)?);
        if key == value {
            return Err(helper.new_error(second, "the two variables have one name"));
        }
        Ok(Some(Self {
            helper,
            range,
            key,
            value,
            filter,
            body,
        }))
    }

    fn expanded(mut self, body: Body) -> IdedExpr {
        let turn = std::mem::take(&mut self.body);
        let turns = match body {
            Body::All => self.quantifier(true, operators::LOGICAL_AND, turn),
            Body::Exists => self.quantifier(false, operators::LOGICAL_OR, turn),
            Body::ExistsOne => self.exists_one(turn),
            Body::List => {
                let turn = self.with_value(turn);
                self.gathered(turn)
            }
            Body::Map => {
                let turn = self.with_value(turn);
                let key = ident(self.helper, &self.key);
                let pair = self.helper.next_expr(Expr::List(ListExpr::new(vec![key, turn])));
                let pairs = self.gathered(pair);
                call(self.helper, MAP_OF_PAIRS, vec![pairs])
            }
            Body::MapEntry => {
                let turn = self.with_value(turn);
                let maps = self.gathered(turn);
                call(self.helper, MAP_OF_MAPS, vec![maps])
            }
        };
        bind(self.helper, RANGE.to_owned(), self.range, turns)
    }

    /// `expression` with the value of the turn under its name.
    fn with_value(&mut self, expression: IdedExpr) -> IdedExpr {
        let (range, key) = (ident(self.helper, RANGE), ident(self.helper, &self.key));
        let value = call(self.helper, operators::INDEX, vec![range, key]);
        bind(self.helper, self.value.clone(), value, expression)
    }

    fn quantifier(&mut self, start: bool, operator: &str, turn: IdedExpr) -> IdedExpr {
        let so_far = ident(self.helper, ACCUMULATOR);
        let goes_on = if start {
            so_far
        } else {
            call(self.helper, operators::LOGICAL_NOT, vec![so_far])
        };
        let goes_on = call(self.helper, operators::NOT_STRICTLY_FALSE, vec![goes_on]);
        let (so_far, turn) = (ident(self.helper, ACCUMULATOR), self.with_value(turn));
        let step = call(self.helper, operator, vec![so_far, turn]);
        let start = self
            .helper
            .next_expr(Expr::Literal(LiteralValue::Boolean(start.into())));
        let result = ident(self.helper, ACCUMULATOR);
        self.over_keys(start, (goes_on, step), result)
    }

    fn exists_one(&mut self, turn: IdedExpr) -> IdedExpr {
        let number =
            |helper: &mut MacroExprHelper<'_>, n: i64| helper.next_expr(Expr::Literal(LiteralValue::Int(n.into())));
        let turn = self.with_value(turn);
        let (so_far, one) = (ident(self.helper, ACCUMULATOR), number(self.helper, 1));
        let more = call(self.helper, operators::ADD, vec![so_far, one]);
        let so_far = ident(self.helper, ACCUMULATOR);
        let step = call(self.helper, operators::CONDITIONAL, vec![turn, more, so_far]);
        let (count, one) = (ident(self.helper, ACCUMULATOR), number(self.helper, 1));
        let result = call(self.helper, operators::EQUALS, vec![count, one]);
        let (start, always) = (number(self.helper, 0), self.always());
        self.over_keys(start, (always, step), result)
    }

    /// A list of `element` for each turn that the filter lets through, in the form in which the engine appends in place.
    fn gathered(&mut self, element: IdedExpr) -> IdedExpr {
        let element = self.helper.next_expr(Expr::List(ListExpr::new(vec![element])));
        let so_far = ident(self.helper, ACCUMULATOR);
        let mut step = call(self.helper, operators::ADD, vec![so_far, element]);
        if let Some(filter) = self.filter.take() {
            let (filter, so_far) = (self.with_value(filter), ident(self.helper, ACCUMULATOR));
            step = call(self.helper, operators::CONDITIONAL, vec![filter, step, so_far]);
        }
        let start = self.helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
        let (always, result) = (self.always(), ident(self.helper, ACCUMULATOR));
        self.over_keys(start, (always, step), result)
    }

    fn always(&mut self) -> IdedExpr {
        self.helper.next_expr(Expr::Literal(LiteralValue::Boolean(true.into())))
    }

    fn over_keys(
        &mut self,
        accu_init: IdedExpr,
        (loop_cond, loop_step): (IdedExpr, IdedExpr),
        result: IdedExpr,
    ) -> IdedExpr {
        let range = ident(self.helper, RANGE);
        let comprehension = ComprehensionExpr {
            iter_range: call(self.helper, KEYS, vec![range]),
            iter_var: self.key.clone(),
            iter_var2: None,
            accu_var: ACCUMULATOR.to_owned(),
            accu_init,
            loop_cond,
            loop_step,
            result,
        };
        self.helper.next_expr(Expr::Comprehension(Box::new(comprehension)))
    }
}

fn keys<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let range = args.first().ok_or_else(ExecutionError::missing_argument_or_target)?;
    if let Some(map) = range.downcast_ref::<CelMap<'v>>() {
        charge(1 + units(map.inner().len()))?;
        return charged::sorted_keys(map);
    }
    let Some(list) = range.downcast_ref::<CelList<'v>>() else {
        return Err(ExecutionError::UnexpectedType {
            got: range.get_type().name().to_owned(),
            want: "iterable".to_owned(),
        });
    };
    charge(1 + units(list.inner().len()))?;
    let indexes = 0..i64::try_from(list.inner().len()).unwrap_or(i64::MAX);
    let indexes = indexes.map(|index| Box::new(CelInt::from(index)) as Box<dyn Val + 'v>);
    Ok(CowVal::owned(CelList::from(indexes.collect::<Vec<_>>())))
}

fn map_of_pairs<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let mut made = HashMap::new();
    for pair in argument::<CelList<'v>>(&args, 0)?.inner() {
        let pair = pair.downcast_ref::<CelList<'v>>().map(CelList::inner);
        let Some([key, value]) = pair else {
            return Err(ExecutionError::missing_argument_or_target());
        };
        insert(&mut made, key.as_ref(), value.as_ref())?;
    }
    Ok(CowVal::owned(CelMap::from(made)))
}

fn map_of_maps<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let mut made = HashMap::new();
    for map in argument::<CelList<'v>>(&args, 0)?.inner() {
        let Some(map) = map.downcast_ref::<CelMap<'v>>() else {
            let types = vec![map.get_type().name().to_owned()];
            return Err(ExecutionError::no_such_member_overload("transformMapEntry", types));
        };
        for (key, value) in map.inner() {
            insert(&mut made, key.inner(), value.as_ref())?;
        }
    }
    Ok(CowVal::owned(CelMap::from(made)))
}

/// Adds a copy of an entry to a map, in which a key may be once. Numbers of different types are one key if they are equal.
fn insert<'v>(
    made: &mut HashMap<CelMapKey<'v>, Box<dyn Val + 'v>>,
    key: &(dyn Val + 'v),
    value: &(dyn Val + 'v),
) -> Result<(), ExecutionError> {
    charge(1)?;
    charged::charge_copy(key)?;
    charged::charge_copy(value)?;
    let twin = match (key.downcast_ref::<CelInt>(), key.downcast_ref::<CelUInt>()) {
        (Some(int), _) => u64::try_from(*int.inner()).ok().map(CelMapKey::from),
        (_, Some(uint)) => i64::try_from(*uint.inner()).ok().map(CelMapKey::from),
        _ => None,
    };
    let key: CelMapKey<'v> = CowVal::<'_, 'v>::Owned(key.clone_as_boxed()).try_into()?;
    let is_there = |key: &CelMapKey<'v>| made.contains_key(key);
    if is_there(&key) || twin.as_ref().is_some_and(is_there) {
        return Err(ExecutionError::function_error("transformMapEntry", "a key twice"));
    }
    made.insert(key, value.clone_as_boxed());
    Ok(())
}
