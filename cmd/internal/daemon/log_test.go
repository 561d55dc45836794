package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/grpclog"

	"github.com/setpoint-dev/setpoint/internal/errorlog"
)

// What grpc and its gateway tell of peers, as that one closed its connection, is a line of the
// log like others: standard error has JSON only.
func TestErrorsOfGRPCEnterTheLog(t *testing.T) {
	core, lines := observer.New(zap.DebugLevel)
	transport.log.Store(errorlog.Of(zap.New(core), zap.InfoLevel, "grpc"))
	defer transport.log.Store(nil)
	grpclog.Errorf("Failed to send response chunk: %v", "broken pipe")
	grpclog.Infof("nothing for an operator")
	all := lines.All()
	if len(all) != 1 || all[0].Level != zap.InfoLevel || all[0].ContextMap()["error"] != "Failed to send response chunk: broken pipe" {
		t.Errorf("logged %+v", all)
	}
	for range 1000 { // as strangers may cause
		grpclog.Errorf("Failed to parse Content-Type ;: mime: no media type")
	}
	if n := lines.Len(); n > errorlog.Burst {
		t.Errorf("%d lines", n)
	}
}

// A text of a caller in a line of the log neither ends it, nor colors it, nor turns the direction of writing around,
// whatever field has it, in either form.
func TestTextsInTheLogAreShown(t *testing.T) {
	const hidden = "a\u202eb\u2066c\u009bd\u007fe\u2028f\u200bg\x1b[31mh\ni\x00j\xffk"
	for _, format := range []string{"json", "console"} {
		var out bytes.Buffer
		log := (&LogSettings{Format: format}).to(&out, zap.NewProductionConfig())
		log.Info("message "+hidden, zap.String("reason", hidden), zap.Error(errors.New(hidden)), zap.Strings("names", []string{hidden, "Zürich 漢字 ✓"}))
		line := out.String()
		for i, r := range line {
			if r != '\t' && !unicode.IsPrint(r) && i < len(line)-1 && (format != "console" || r != '\n') {
				t.Errorf("%s: %q in %q", format, r, line)
			}
		}
		if !strings.Contains(line, "Zürich 漢字 ✓") {
			t.Errorf("%s: letters are missing in %q", format, line)
		}
		if format == "json" && !json.Valid(out.Bytes()) {
			t.Errorf("no JSON: %q", line)
		}
	}
}
