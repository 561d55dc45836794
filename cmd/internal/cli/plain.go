package cli

import "github.com/setpoint-dev/setpoint/internal/printable"

// Plain is printable.Text.
func Plain(text string) string { return printable.Text(text) }
