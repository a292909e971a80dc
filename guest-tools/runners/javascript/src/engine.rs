//! One run of a script in QuickJS: the engine, its modules, and the loop that runs
//! promises and timers. What Node adds to the language is in `js`.

use std::cell::{Cell, RefCell};
use std::thread;
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::function::{Args, IntoArgs};
use rquickjs::loader::{Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::prelude::Func;
use rquickjs::{
    CatchResultExt as _, CaughtError, Context, Ctx, Exception, FromJs, Function, Module, Object,
    Persistent, Result, Runtime, Value,
};

use skillhost_guest::scripts::{self, Refusal};

use crate::{data, files, output, sources};

thread_local! {
    /// The functions that `js/boot.js` returns, for the engine to call.
    static HOOKS: RefCell<Option<Persistent<Object<'static>>>> = const { RefCell::new(None) };
    /// The exit code, once the script has set one.
    static EXIT: Cell<Option<i32>> = const { Cell::new(None) };
    static NOTES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The most notes about unsupported features that a script used. Guards against: a
/// script that uses thousands.
const MOST_NOTES: usize = 10;

/// A script and what it is given.
pub(crate) struct Script {
    pub(crate) folder: String,
    pub(crate) path: String,
    pub(crate) source: Vec<u8>,
    pub(crate) args: Vec<String>,
    pub(crate) stdin: String,
}

/// Runs a script, once in the life of a component. Returns its exit code.
pub(crate) fn run(script: Script) -> std::result::Result<i32, String> {
    let trouble = |error: rquickjs::Error| format!("the engine cannot start: {error}");
    let runtime = Runtime::new().map_err(trouble)?;
    let context = Context::full(&runtime).map_err(trouble)?;
    runtime.set_interrupt_handler(Some(Box::new(|| EXIT.get().is_some())));
    runtime.set_loader(Modules, Modules);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(|ctx, promise, reason, handled| {
        let _ = hook::<()>(&ctx, "rejection", (promise, reason, handled));
    })));
    let code = context.with(|ctx| match start(&ctx, script).catch(&ctx) {
        Ok(()) => last(&ctx),
        Err(error) => broken(&error),
    });
    // The sandbox goes with the call: nothing in it has to be given back one by one.
    std::mem::forget(context);
    std::mem::forget(runtime);
    Ok(code)
}

/// Returns the exit code where the engine could not go on: it was asked to stop, or has
/// no memory left for the words of an error.
fn broken(error: &CaughtError<'_>) -> i32 {
    EXIT.get().unwrap_or_else(|| {
        output::add(output::STDERR, format!("{error}\n").as_bytes());
        1
    })
}

/// Returns what the script asked for and the sandbox does not have.
pub(crate) fn notes() -> Vec<String> {
    NOTES.take()
}

fn start(ctx: &Ctx<'_>, script: Script) -> Result<()> {
    let native = Object::new(ctx.clone())?;
    files::provide(&native)?;
    data::provide(&native)?;
    provide(&native)?;
    let Script {
        folder,
        path,
        source,
        args,
        stdin,
    } = script;
    let within = folder.clone();
    native.set(
        "loadModule",
        Func::from(move |path: String| load_module(&within, &path)),
    )?;
    native.set("folder", folder)?;
    native.set("script", path)?;
    native.set(
        "scriptSource",
        String::from_utf8_lossy(&source).into_owned(),
    )?;
    native.set("args", args)?;
    native.set("stdin", stdin)?;
    let boot: Function<'_> = compile(ctx.clone(), own("boot")?, "node:internal/boot".into())?;
    let hooks: Object<'_> = boot.call((native,))?;
    HOOKS.set(Some(Persistent::save(ctx, hooks)));
    hook(ctx, "main", ())
}

/// Returns what the skill has at a path on the disk: `module` and its text, `folder`,
/// `nothing`, or `refused` and the reason.
fn load_module(folder: &str, path: &str) -> Vec<String> {
    let inside = path.strip_prefix(folder).unwrap_or("?");
    let found = match inside.strip_prefix('/') {
        Some(inside) => scripts::load_module(inside),
        None if inside.is_empty() => Err(Refusal::NotAFile),
        None => Err(Refusal::Outside),
    };
    match found {
        Ok(bytes) => vec![
            "module".to_owned(),
            String::from_utf8_lossy(&bytes).into_owned(),
        ],
        Err(Refusal::NotAFile) => vec!["folder".to_owned()],
        Err(Refusal::NotFound | Refusal::Outside) => vec!["nothing".to_owned()],
        Err(Refusal::NotGranted) => vec![
            "refused".to_owned(),
            "this call changed or removed it, and only files that the skill has on the disk run"
                .to_owned(),
        ],
        Err(refusal) => vec!["refused".to_owned(), crate::reason(refusal).to_owned()],
    }
}

/// Runs what the script has left to do, and says how it ended.
fn last(ctx: &Ctx<'_>) -> i32 {
    loop {
        while EXIT.get().is_none() && ctx.execute_pending_job() {}
        if let Some(code) = EXIT.get() {
            return code;
        }
        // Milliseconds until the next timer.
        let wait: f64 = match hook(ctx, "turn", ()).catch(ctx) {
            Ok(wait) => wait,
            Err(error) => return broken(&error),
        };
        if wait > 0.0 {
            thread::sleep(Duration::from_secs_f64(wait / 1000.0));
        }
    }
}

/// Calls a function of `js/boot.js`.
fn hook<'js, T: FromJs<'js>>(
    ctx: &Ctx<'js>,
    name: &str,
    arguments: impl IntoArgs<'js>,
) -> Result<T> {
    let Some(hooks) = HOOKS.with_borrow(Clone::clone) else {
        return Err(Exception::throw_message(ctx, "too early"));
    };
    let function: Function<'js> = hooks.restore(ctx)?.get(name)?;
    let mut given = Args::new(ctx.clone(), arguments.num_args());
    arguments.into_args(&mut given)?;
    given.apply(&function)
}

fn own(name: &str) -> Result<String> {
    let found = sources::find(name).map(str::to_owned);
    found.ok_or_else(|| rquickjs::Error::new_loading(name))
}

/// Returns the value of a script that is one expression.
fn compile<'js>(ctx: Ctx<'js>, source: String, name: String) -> Result<Function<'js>> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(name);
    ctx.eval_with_options(source, options)
}

fn provide<'js>(native: &Object<'js>) -> Result<()> {
    let start = Instant::now();
    native.set("compile", Func::from(compile))?;
    native.set("source", Func::from(|name: String| sources::find(&name)))?;
    native.set(
        "output",
        Func::from(|stream: u32, text: String| output::add(stream, text.as_bytes())),
    )?;
    native.set(
        "outputBytes",
        Func::from(|stream: u32, bytes: rquickjs::TypedArray<'js, u8>| {
            output::add(stream, bytes.as_bytes().unwrap_or_default());
        }),
    )?;
    native.set(
        "clock",
        Func::from(move || start.elapsed().as_secs_f64() * 1000.0),
    )?;
    native.set(
        "sleep",
        Func::from(|milliseconds: f64| {
            thread::sleep(Duration::from_secs_f64(milliseconds.max(0.0) / 1000.0));
        }),
    )?;
    // From here on no code of the script goes on: the engine asks the handler above.
    native.set("exit", Func::from(|code: i32| EXIT.set(Some(code & 0xff))))?;
    native.set(
        "note",
        Func::from(|line: String| {
            NOTES.with_borrow_mut(|notes| {
                if notes.len() < MOST_NOTES && !notes.contains(&line) {
                    notes.push(line);
                }
            })
        }),
    )?;
    native.set(
        "environment",
        std::env::vars().collect::<std::collections::HashMap<_, _>>(),
    )
}

/// Modules of the skill and of Node. `js/loader.js` finds and makes them.
struct Modules;

impl Resolver for Modules {
    fn resolve<'js>(&mut self, ctx: &Ctx<'js>, base: &str, name: &str) -> Result<String> {
        hook(ctx, "resolve", (base, name))
    }
}

impl Loader for Modules {
    fn load<'js>(&mut self, ctx: &Ctx<'js>, name: &str) -> Result<Module<'js, Declared>> {
        let (source, meta): (String, Object<'js>) = {
            let found: Object<'js> = hook(ctx, "load", (name,))?;
            (found.get("source")?, found.get("meta")?)
        };
        let module = Module::declare(ctx.clone(), name, source)?;
        let target = module.meta()?;
        for entry in meta.props::<String, Value<'js>>() {
            let (key, value) = entry?;
            target.set(key, value)?;
        }
        Ok(module)
    }
}
