package web_test

import (
	"io/fs"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/web"
)

func TestFilesHaveTheEngineBesideThePage(t *testing.T) {
	t.Parallel()
	var names []string
	err := fs.WalkDir(web.Files(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil {
			_, err = fs.Stat(web.Files(), name)
		}
		names = append(names, name)
		return err
	})
	fatal.If(t, err)
	for _, want := range []string{"index.html", "assets", "engine", "engine/README.md"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not there: %q", want, names)
		}
	}
}
