"""What emitted programs are built on: charts, scaled sums, evidence."""
