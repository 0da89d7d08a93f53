//! The macro that turns the declaration of a section into its struct and its table.

/// Declares a section: for each setting a field with its documentation, type and default, then calls of the builder
/// methods of `SettingSpec`. The documentation is shown to users too, so it is written for them.
///
/// - `derived`: fields that are not settings, computed by `finish`.
/// - `finish`: a function that checks settings against each other, after all of them are read.
/// - `inputs`: settings that are passed to `finish` and are not kept in the struct.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])*
        $(#[derive($($trait:ident),*)])?
        pub struct $Section:ident in $path:literal {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $type:ty = $default:expr $(, $option:ident($($argument:expr),*))*;
            )*
        }
        $(derived {
            $(
                $(#[doc = $derived_doc:literal])*
                $derived:ident: $derived_type:ty = $derived_default:expr;
            )*
        })?
        $(finish $finish:path $(, inputs $Inputs:ident {
            $(
                $(#[doc = $input_doc:literal])*
                $input:ident: $input_type:ty = $input_default:expr $(, $input_option:ident($($input_argument:expr),*))*;
            )*
        })?;)?
    ) => {
        $(#[doc = $section_doc])*
        $(#[derive($($trait),*)])?
        pub struct $Section {
            $($(#[doc = $doc])* pub $field: $type,)*
            $($($(#[doc = $derived_doc])* pub $derived: $derived_type,)*)?
        }

        impl Default for $Section {
            fn default() -> Self {
                $Section {
                    $($field: $default,)*
                    $($($derived: $derived_default,)*)?
                }
            }
        }

        $($(struct $Inputs {
            $($input: $input_type,)*
        })?)?

        impl $crate::config::setting::SectionType for $Section {
            const SECTION: $crate::config::setting::SectionSpec = $crate::config::setting::SectionSpec {
                path: $path,
                doc: &[$($section_doc),*],
                settings: &[
                    $($($($crate::config::section::spec!(
                        $input: $input_type, [$($input_doc),*], $input_default,
                        $($input_option($($input_argument),*)),*
                    ),)*)?)?
                    $($crate::config::section::spec!(
                        $field: $type, [$($doc),*], $default, $($option($($argument),*)),*
                    ),)*
                ],
            };

            fn read_table(reader: &$crate::config::table_reader::TableReader<'_>) -> Self {
                let section = $Section {
                    $($field: $crate::config::setting::read_setting(
                        reader,
                        &const { $crate::config::section::spec!(
                            $field: $type, [$($doc),*], $default, $($option($($argument),*)),*
                        ) },
                        || $default,
                    ),)*
                    $($($derived: $derived_default,)*)?
                };
                $(let section = {
                    let mut section = section;
                    $finish(&mut section, reader, $($Inputs {
                        $($input: $crate::config::setting::read_setting(
                            reader,
                            &const { $crate::config::section::spec!(
                                $input: $input_type, [$($input_doc),*], $input_default,
                                $($input_option($($input_argument),*)),*
                            ) },
                            || $input_default,
                        ),)*
                    })?);
                    section
                };)?
                reader.reject_unknown_keys(&Self::SECTION.keys(reader.context.scope));
                section
            }

            fn apply_overrides(
                &mut self,
                table: &str,
                variables: &std::collections::BTreeMap<String, String>,
                log: &mut $crate::config::origin::SettingLog,
            ) {
                $($crate::config::setting::SettingType::apply_override(
                    &mut self.$field,
                    table,
                    &const { $crate::config::section::spec!(
                        $field: $type, [$($doc),*], $default, $($option($($argument),*)),*
                    ) },
                    variables,
                    log,
                );)*
            }
        }

        impl $crate::config::setting::SettingType for $Section {
            const KIND: $crate::config::setting::ValueKind =
                $crate::config::setting::ValueKind::Section(
                    &<Self as $crate::config::setting::SectionType>::SECTION,
                );

            fn parse(
                _: &$crate::config::syntax_tree::SyntaxValue,
                _: &$crate::config::setting::SettingSpec,
            ) -> std::result::Result<Self, String> {
                Err("must be a table".into())
            }

            fn to_json(&self, _: &$crate::config::setting::SettingSpec) -> Option<serde_json::Value> {
                None
            }

            fn read(
                reader: &$crate::config::table_reader::TableReader<'_>,
                spec: &$crate::config::setting::SettingSpec,
                default: fn() -> Self,
            ) -> Self {
                use $crate::config::setting::SectionType;
                match reader.has(spec.key) {
                    true => reader
                        .table(spec.key)
                        .map_or_else(default, |table| Self::read_table(&table)),
                    false => Self::read_table(&reader.absent_table(spec.key)),
                }
            }

            fn apply_override(
                &mut self,
                table: &str,
                spec: &$crate::config::setting::SettingSpec,
                variables: &std::collections::BTreeMap<String, String>,
                log: &mut $crate::config::origin::SettingLog,
            ) {
                use $crate::config::setting::SectionType;
                let table = $crate::config::table_reader::key_path(table, spec.key);
                self.apply_overrides(&table, variables, log);
            }
        }
    };
}

/// The declaration of one setting as a constant expression.
macro_rules! spec {
    (
        $field:ident: $type:ty, [$($doc:literal),*], $default:expr,
        $($option:ident($($argument:expr),*)),*
    ) => {
        $crate::config::setting::SettingSpec::new::<$type>(
            stringify!($field),
            &[$($doc),*],
            |spec| $crate::config::setting::SettingType::to_json(&{ let default: $type = $default; default }, spec),
        )
        $(.$option($($argument),*))*
    };
}

pub(super) use {section, spec};
