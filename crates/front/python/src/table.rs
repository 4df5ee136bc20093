//! `weir.Table`: columns in the memory of Arrow, for any program that reads its C data interface.
//!
//! Source: the Arrow PyCapsule interface,
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, LargeStringArray, RecordBatch, RecordBatchIterator, UInt64Array,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// A table: immutable, and exported without a copy.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Table(RecordBatch);

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The columns' types as a capsule of Arrow.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(|error| broken(&error))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The table as a stream of one batch. The types are always the table's own: the interface lets a producer ignore
    /// the requested ones.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    fn __repr__(&self) -> String {
        format!("<weir.Table: {} rows of {}>", self.0.num_rows(), self.column_names().join(", "))
    }
}

/// An error of Arrow about columns that this crate has made.
fn broken(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(format!("broken invariant: {error}"))
}

/// The columns of a table in the making.
#[derive(Default)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn with(mut self, name: &str, data: DataType, nullable: bool, array: ArrayRef) -> Self {
        self.fields.push(Field::new(name, data, nullable));
        self.arrays.push(array);
        self
    }

    /// Whole numbers.
    pub(crate) fn whole(self, name: &str, values: impl Iterator<Item = u64>) -> Self {
        self.with(name, DataType::UInt64, false, Arc::new(UInt64Array::from_iter_values(values)))
    }

    /// Whole numbers that may be missing.
    pub(crate) fn maybe_whole(self, name: &str, values: impl Iterator<Item = Option<u64>>) -> Self {
        self.with(name, DataType::UInt64, true, Arc::new(values.collect::<UInt64Array>()))
    }

    /// Numbers that may be missing.
    pub(crate) fn maybe_real(self, name: &str, values: impl Iterator<Item = Option<f64>>) -> Self {
        self.with(name, DataType::Float64, true, Arc::new(values.collect::<Float64Array>()))
    }

    /// Texts; their offsets have 64 bits, since names of millions of flows exceed 2 GiB.
    pub(crate) fn text<'a>(self, name: &str, values: impl Iterator<Item = &'a str>) -> Self {
        self.with(name, DataType::LargeUtf8, false, Arc::new(LargeStringArray::from_iter_values(values)))
    }

    /// Truth values.
    pub(crate) fn flag(self, name: &str, values: impl Iterator<Item = bool>) -> Self {
        self.with(name, DataType::Boolean, false, Arc::new(values.map(Some).collect::<BooleanArray>()))
    }

    /// The table.
    ///
    /// # Errors
    /// Columns of different lengths.
    pub(crate) fn finish(self) -> PyResult<Table> {
        let batch = RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays);
        batch.map(Table).map_err(|error| broken(&error))
    }
}
