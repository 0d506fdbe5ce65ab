"""Map literals of Spark's that are looked up by hash, and whose plans do not show their values.

PySpark has no literal for a map: it has a function that builds one, and plans, event logs and the
web interface show its arguments. A literal of bytes in a row shows as an object's number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, SparkSession


class LiteralMaps:
    """Makes map literals with texts as keys.

    Args:
        spark: the session whose JVM holds them.
    """

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._gateway: Any = context._gateway  # noqa: SLF001 - no public way to a literal
        self._sql: Any = context._jvm.org.apache.spark.sql  # noqa: SLF001 - as above
        self._text: Any = context._jvm.org.apache.spark.unsafe.types.UTF8String  # noqa: SLF001

    def of_rows(self, rows: Mapping[str, Sequence[int | bytes | None]], fields: str) -> Column:
        """Return a map to rows.

        Args:
            rows: by key.
            fields: their columns, as in a table's definition: "flags int, pad binary".
        """
        row = self._sql.catalyst.expressions.GenericInternalRow
        made = [row(self._array([_java(value) for value in values])) for values in rows.values()]
        return self._literal(list(rows), made, self._sql.types.StructType.fromDDL(fields))

    def of_truths(self, truths: Mapping[str, bool]) -> Column:
        """Return a map to true and false."""
        return self._literal(
            list(truths), list(truths.values()), self._sql.types.DataTypes.BooleanType
        )

    def _literal(self, keys: list[str], values: list[Any], value_type: Any) -> Column:
        util = self._sql.catalyst.util
        texts = [self._text.fromString(key) for key in keys]
        data = util.ArrayBasedMapData(
            util.GenericArrayData(self._array(texts)), util.GenericArrayData(self._array(values))
        )
        types = self._sql.types
        map_type = types.MapType(types.DataTypes.StringType, value_type, True)
        literal = self._sql.catalyst.expressions.Literal(data, map_type)
        return Column(self._sql.classic.ExpressionUtils.column(literal))

    def _array(self, items: Sequence[Any]) -> Any:
        array = self._gateway.new_array(self._gateway.jvm.java.lang.Object, len(items))
        for position, item in enumerate(items):
            array[position] = item
        return array


def _java(value: int | bytes | None) -> int | bytearray | None:
    return bytearray(value) if isinstance(value, bytes) else value
