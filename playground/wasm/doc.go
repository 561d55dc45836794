//go:build !js

package main

import "fmt"

func main() { fmt.Println("this program is for browsers: scripts/wasm.sh builds it") }
