package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
)

// A secret that an operator put into a URL instead of a file appears neither in the output of
// --check nor in an error, whatever the setting.
func TestCheckTellsNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	urls := []string{
		"redis://:s3cret@h", "redis://s3cret@h", "redis://user:s3cret@h:1/2", "rediss://user:s3cret@a,b:1", "redis://us%40er:s3cret%2F@h",
		"redis://h?master=m&sentinelPassword=s3cret", "redis://h?master=m&sentinelUser=s3cret&sentinelPassword=s3cret", "redis://h?master=m&sentinelPassword=x%26s3cret",
		"redis://user:s3cret@h?master=m&sentinelPassword=x@s3cret", "redis://h?sentinelpassword=s3cret", "redis://h?s3cret", "redis://h?s3cret@x",
		"redis://user:s3cret/x@h", "redis://user:x/s3cret@h", "redis://user:x?s3cret@h", "redis://user:x?x=s3cret@h", "redis://user:x#s3cret@h",
		"redis://user:1?master=s3cret@h", "redis://h?addr=user:s3cret@n2",
		"http://user:s3cret@h:4317", "https://s3cret@h", "https://h?token=s3cret", "https://h:4317/?s3cret", "https://h#s3cret", "https://user:s3/s3cret@h",
		"user:s3cret@h:4317", "s3cret@h:4317",
	}
	for _, u := range urls {
		for _, command := range [][]string{
			{"serve", "--check", "--redis=" + u},
			{"serve", "--check", "--redis=redis://h", "--redis=" + u},
			{"serve", "--check", "--otlp-endpoint=" + u},
			{"serve", "--check", "--config=" + clitest.File(t, "setpoint.yaml", "redis: ["+yamlString(u)+"]\notlp-endpoint: "+yamlString(u))},
			{"agent", "--check", "--server=" + u},
		} {
			got := run(t, "", command...)
			if strings.Contains(got.Stdout+got.Stderr, secret) {
				t.Errorf("%s: exit code %d, told\n%s%s", command, got.Code, got.Stdout, got.Stderr)
			}
			if got.Code != 0 && got.Stderr == "" {
				t.Errorf("%s: exit code %d, and nothing is told", command, got.Code)
			}
		}
	}
	// No setting, not even a future one, prints a URL unmasked.
	for _, command := range newRoot().Commands() {
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if kind := flag.Value.Type(); kind != "string" && kind != "stringSlice" && kind != "stringArray" {
				return
			}
			for _, u := range urls {
				if !strings.Contains(u, "://") {
					continue // no setting accepts such values: see above
				}
				if text := config.Mask(u); strings.Contains(text, secret) {
					t.Errorf("%s --%s: %s is shown as %s", command.Name(), flag.Name, u, text)
				}
			}
		})
	}
}

func yamlString(text string) string { return "'" + text + "'" }
