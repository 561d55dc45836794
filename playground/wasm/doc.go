//go:build !js

// Command wasm says that it is for browsers: see main.go.
package main

import "fmt"

func main() { fmt.Println("this program is for browsers: scripts/wasm.sh builds it") }
