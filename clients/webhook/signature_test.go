package webhook_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/clients/webhook"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// An independent program made the vectors, and the example server in Python is tested with
// them, too.
func TestSignatures(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/signatures.json")
	fatal.If(t, err)
	page := testpages.Read(t, "../../docs/guides/webhook.md")
	var file struct {
		Key, Secret string
		Vectors     []struct {
			Signed, Name, Kind, Method, Target, Nonce, Body, Signature, ETag string
			Timestamp                                                        int64
			Status                                                           int
		}
	}
	fatal.If(t, json.Unmarshal(text, &file))
	key := webhook.Key{Name: file.Key, Secret: []byte(file.Secret)}
	for _, v := range file.Vectors {
		at := time.Unix(v.Timestamp, 0)
		got := key.SignAnswer(v.Status, at, v.Nonce, v.ETag, []byte(v.Body))
		if v.Kind == "request" {
			got = key.SignRequest(v.Method, v.Target, at, v.Nonce, []byte(v.Body))
		}
		if got != v.Signature {
			t.Errorf("%s: got %s, want %s", v.Name, got, v.Signature)
		}
	}
	for _, v := range file.Vectors[:2] {
		if text := page; !strings.Contains(text, "```\n"+v.Signed+"\n```\n") || !strings.Contains(text, "Setpoint-Signature: "+v.Signature+"\n") {
			t.Errorf("docs/guides/webhook.md has not the vector %q", v.Name)
		}
	}
	if len(file.Vectors) == 0 {
		t.Error("no vectors")
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"k1:" + secret: "",
		"# made on Monday\n\nk2:" + secret + "x\r\nk1:" + secret + "\n": "",
		"":                                  "it holds no key",
		"k1":                                "line 1 is not NAME:SECRET",
		"k 1:" + secret:                     "line 1 is not NAME:SECRET",
		"k1:short":                          "line 1: the secret must have at least 32",
		"k1:" + secret + "\nk1:" + secret:   "line 2: there is a key of that name",
		strings.Repeat("k:"+secret+"\n", 1): "",
		"a:" + secret + "\nb:" + secret + "\nc:" + secret + "\nd:" + secret + "\ne:" + secret: "it holds 5 keys",
	} {
		keys, err := webhook.ParseKeys([]byte(text))
		switch {
		case want == "" && (err != nil || len(keys) == 0):
			t.Errorf("%q: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret)):
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
