package main

import (
	"archive/tar"
	"io"
	"strings"
	"testing"
	"time"
)

func TestInstructionsThatCanNotBePutTogetherAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"COPY", ""}, {"COPY", "alone"}, {"RUN", "true"}, {"FROM", "debian"}, {"LABEL", "a=b"}, {"CMD", "not json"}} {
		if err := new(image).apply(tar.NewWriter(io.Discard), map[string]bool{}, time.Time{}, t.TempDir(), c[0], c[1]); err == nil {
			t.Errorf("%s %q is taken", c[0], c[1])
		}
	}
}

// A misspelt argument would leave an empty label unnoticed.
func TestArgumentsAreThoseThatTheDockerfileDeclares(t *testing.T) {
	t.Parallel()
	const created = "2026-01-02T03:04:05Z"
	for _, c := range []struct {
		name, dockerfile string
		arguments        map[string]string
		label, refused   string
	}{
		{"given", "ARG VERSION=dev\nLABEL v=\"${VERSION}\"", map[string]string{"VERSION": "v1"}, `"Labels":{"v":"v1"}`, ""},
		{"its default", "ARG VERSION=dev\nLABEL v=\"${VERSION}\"", nil, `"Labels":{"v":"dev"}`, ""},
		{"given as empty", "ARG VERSION=dev\nLABEL v=\"${VERSION}\"", map[string]string{"VERSION": ""}, `"Labels":{"v":""}`, ""},
		{"misspelt in the Dockerfile", "ARG VERSION=dev\nLABEL v=\"${VERSOIN}\"", nil, "", `declares ["VERSOIN"]: there is ["VERSION"]`},
		{"used before it is declared", "LABEL v=\"${VERSION}\"\nARG VERSION=dev", nil, "", "no ARG before it declares"},
		{"misspelt by the caller", "ARG VERSION=dev", map[string]string{"VERSOIN": "v1"}, "", `no ARG of the Dockerfile is called "VERSOIN"`},
		{"neither given nor with a default", "ARG VERSION", nil, "", "VERSION has no value"},
	} {
		arguments := map[string]string{"CREATED": created}
		for key, value := range c.arguments {
			arguments[key] = value
		}
		var out strings.Builder
		err := write(&out, "FROM scratch\n"+c.dockerfile, t.TempDir(), "arm64", "x:1", arguments)
		switch {
		case c.refused == "" && (err != nil || !strings.Contains(out.String(), c.label)):
			t.Errorf("%s: %v, without %s", c.name, err, c.label)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want %s", c.name, err, c.refused)
		}
	}
}
