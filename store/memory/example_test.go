package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// Two callers decide from the same state; the second loses and is given what to
// decide from instead.
func Example() {
	ctx := context.Background()
	s := memory.New(memory.Options{})
	web := store.Key{Cluster: "production", Namespace: "shop", Target: "web"}

	for _, caller := range []string{"first", "second"} {
		res, err := s.CompareAndSwap(ctx, store.Swap{Key: web, Value: []byte(caller)})
		if err != nil {
			log.Fatal(err)
		}
		if !res.Swapped {
			fmt.Printf("the %s caller lost to the %s\n", caller, res.Record.Value)
		}
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: the second caller lost to the first
}
