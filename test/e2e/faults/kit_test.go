package faults

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// parallel is how many tests run at once: they wait most of the time.
const parallel = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := slices.ContainsFunc(os.Args, func(arg string) bool {
		return strings.HasPrefix(strings.TrimLeft(arg, "-"), "test.parallel")
	})
	if !chosen {
		if err := flag.Set("test.parallel", parallel); err != nil {
			panic(err)
		}
	}
	goredis.SetLogger(quiet{})
	zerolog.SetGlobalLevel(zerolog.Disabled) // what toxics say
	os.Exit(kit.RunWithoutLeaks(m,
		// A connection that a toxic has closed keeps those that feed it.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	))
}

// quiet drops the driver's lines about connections that come and go.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

const pollInterval = 5 * time.Millisecond

// brief rounds a duration for people.
func brief(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
