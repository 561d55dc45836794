//go:build js && wasm

// Command wasm is package playground for browsers: it sets the function setpointAnswer, which
// takes a question as a string and a function that gets the answer, and stays.
package main

import (
	"syscall/js"
	_ "time/tzdata" // scenarios name time zones

	"github.com/setpoint-dev/setpoint/playground"
)

func main() {
	js.Global().Set("setpointAnswer", js.FuncOf(func(_ js.Value, args []js.Value) any {
		if len(args) != 2 || args[0].Type() != js.TypeString || args[1].Type() != js.TypeFunction {
			panic("setpointAnswer takes a question and who gets the answer")
		}
		question, done := args[0].String(), args[1]
		// What blocks, such as looking for a file, must not do so in a callback.
		go func() { done.Invoke(string(playground.Answer([]byte(question)))) }()
		return nil
	}))
	if ready := js.Global().Get("setpointReady"); ready.Type() == js.TypeFunction {
		ready.Invoke()
	}
	select {}
}
