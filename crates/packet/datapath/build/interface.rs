//! From bindgen's Rust to the interface that the crate uses.
//!
//! Names lose the prefix of C: `struct weir_cpu_batch` is `CpuBatch`, `weir_limiter_earliest` is `limiter_earliest`,
//! `WEIR_RULES_MAX` is `RULES_MAX`. Functions take references where C takes a pointer to one object.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use std::collections::BTreeSet;
use syn::{
    Attribute, Expr, ExprLit, FnArg, ForeignItem, ForeignItemFn, Item, ItemStruct, Lit, Meta, MetaNameValue,
    PointerMutability, Type,
};

/// The interface from bindgen's output, one item a line. The functions of `pointers` keep their
/// pointers; `counters` are structures whose fields are listed by name and comment.
pub(crate) fn rewrite(bindings: &str, pointers: &[&str], counters: &[&str]) -> syn::Result<String> {
    let file = syn::parse_file(bindings)?;
    let is_type = |item: &Item| match item {
        Item::Struct(item) => Some(item.ident.to_string()),
        Item::Type(item) => Some(item.ident.to_string()),
        _ => None,
    };
    let types: BTreeSet<String> = file.items.iter().filter_map(is_type).collect();
    let mut text = String::new();
    for item in &file.items {
        let tokens = match item {
            // `u8` to `u64`, which Rust has.
            Item::Type(alias) if primitive(&alias.ident.to_string()).is_some() => continue,
            Item::ForeignMod(block) => {
                block.items.iter().map(|item| function(item, pointers)).collect::<syn::Result<_>>()?
            }
            Item::Struct(item) if counters.iter().any(|name| item.ident == name) => {
                let list = list(item)?;
                quote!(#item #list)
            }
            item => item.to_token_stream(),
        };
        text.push_str(&rename(tokens, &types).to_string());
        text.push('\n');
    }
    Ok(text)
}

/// Names, comments and values of the fields of a structure of counters.
fn list(counters: &ItemStruct) -> syn::Result<TokenStream> {
    let name = &counters.ident;
    let fields = counters.fields.iter().map(|field| {
        let ident = field.ident.as_ref();
        let help = field.attrs.iter().find_map(comment).filter(|help| !help.is_empty());
        let text = ident.map(ToString::to_string).unwrap_or_default();
        let missing = || syn::Error::new_spanned(field, format!("the counter `{text}` of {name} needs a comment"));
        let help = help.ok_or_else(missing)?;
        Ok(quote!((#text, #help, self.#ident)))
    });
    let fields = fields.collect::<syn::Result<Vec<_>>>()?;
    let count = fields.len();
    Ok(quote! {
        impl #name {
            /// Each counter: its name, what it counts, its value.
            pub fn each(&self) -> [(&'static str, &'static str, u64); #count] {
                [#(#fields),*]
            }
        }
    })
}

/// The text of a doc attribute, on one line.
fn comment(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(MetaNameValue { path, value: Expr::Lit(ExprLit { lit: Lit::Str(text), .. }), .. })
            if path.is_ident("doc") =>
        {
            Some(text.value().split_whitespace().collect::<Vec<_>>().join(" "))
        }
        _ => None,
    }
}

/// A function in a block of its own.
fn function(item: &ForeignItem, pointers: &[&str]) -> syn::Result<TokenStream> {
    let ForeignItem::Fn(ForeignItemFn { attrs, sig, .. }) = item else { return Ok(item.to_token_stream()) };
    let (name, inputs, output) = (&sig.ident, &sig.inputs, &sig.output);
    if pointers.contains(&name.to_string().as_str()) {
        return Ok(quote!(unsafe extern "C" { #(#attrs)* pub(crate) fn #name(#inputs) #output; }));
    }
    let inputs = inputs.iter().map(|input| by_reference(name, input)).collect::<syn::Result<Vec<_>>>()?;
    Ok(quote!(unsafe extern "C" { #(#attrs)* pub(crate) safe fn #name(#(#inputs),*) #output; }))
}

/// A parameter of a function that Rust calls by reference. A pointer to bytes or to constant
/// integers is an array whose length C does not state: a reference would be to its first element.
fn by_reference(function: &Ident, input: &FnArg) -> syn::Result<TokenStream> {
    let tokens = match input {
        FnArg::Typed(argument) => {
            let name = &argument.pat;
            match &*argument.ty {
                Type::Ptr(pointer) => {
                    let of = &pointer.elem;
                    let is_const = matches!(pointer.mutability, PointerMutability::Const(_));
                    let pointee = of.to_token_stream().to_string();
                    if primitive(&pointee).is_some_and(|integer| integer == "u8" || is_const) {
                        let name = name.to_token_stream();
                        let message = format!(
                            "`{name}` of {function} may point to several integers: declare their number, or list the \
                             function among those with pointers"
                        );
                        return Err(syn::Error::new_spanned(input, message));
                    }
                    match pointer.mutability {
                        PointerMutability::Mut(_) => quote!(#name: &mut #of),
                        PointerMutability::Const(_) => quote!(#name: &#of),
                    }
                }
                of => quote!(#name: #of),
            }
        }
        receiver => receiver.to_token_stream(),
    };
    Ok(tokens)
}

/// The same tokens with Rust's names for C's.
fn rename(tokens: TokenStream, types: &BTreeSet<String>) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Group(group) => TokenTree::Group(Group::new(group.delimiter(), rename(group.stream(), types))),
            TokenTree::Ident(ident) => {
                TokenTree::Ident(Ident::new(&rust_name(&ident.to_string(), types), ident.span()))
            }
            token => token,
        })
        .collect()
}

/// The Rust name of what bindgen calls `name`.
pub(crate) fn rust_name(name: &str, types: &BTreeSet<String>) -> String {
    if let Some(primitive) = primitive(name) {
        return primitive.to_owned();
    }
    match name.strip_prefix("weir_").or_else(|| name.strip_prefix("WEIR_")) {
        Some(rest) if types.contains(name) => rest.split('_').map(capitalised).collect(),
        Some(rest) => rest.to_owned(),
        None => name.to_owned(),
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}

/// Of the header's own names for fixed-width integers.
fn primitive(name: &str) -> Option<&str> {
    let primitive = name.strip_suffix('_')?;
    ["u8", "u16", "u32", "u64"].contains(&primitive).then_some(primitive)
}
