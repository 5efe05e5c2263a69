"""The doors: functions that join the compiler to the runtime."""
