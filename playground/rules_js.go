package playground

import (
	"encoding/json"
	"reflect"
)

// rulesOf returns the rules of a message's Go field, which package overlay has written into its tag.
func rulesOf(message reflect.Type, i int) (r Rules) {
	if text := message.Field(i).Tag.Get("rules"); text != "" {
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			panic(err)
		}
	}
	return r
}
