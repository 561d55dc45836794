package server

import (
	"net/http"

	"github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"

	"github.com/setpoint-dev/setpoint/server/page"
)

// docsPage shows the API's description. It is not a template, because linking a template
// engine keeps every exported method of the program, which makes it half as large again.
const docsPage = `<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="UTF-8">
  <title>Setpoint - Swagger UI</title>
  <link rel="stylesheet" type="text/css" href="swagger-ui.css">
  <link rel="icon" type="image/png" sizes="32x32" href="favicon-32x32.png">
  <link rel="icon" type="image/png" sizes="16x16" href="favicon-16x16.png">
  <link rel="stylesheet" type="text/css" href="page.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="swagger-ui-bundle.js"></script>
<script src="swagger-ui-standalone-preset.js"></script>
<script src="page.js"></script>
</body>
</html>
`

// docsStyle and docsScript are separate files, so that the page's content policy can
// forbid inline code.
const (
	docsStyle  = "body { margin: 0; background: #fafafa; }\n"
	docsScript = `window.onload = function () {
  window.ui = SwaggerUIBundle({
    url: "..` + openapiPath + `",
    dom_id: "#swagger-ui",
    deepLinking: true,
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl, function () { return { components: { Topbar: function () { return null; } } }; }],
    layout: "StandaloneLayout",
    showExtensions: true,
    showCommonExtensions: true,
    validatorUrl: null,
    defaultModelsExpandDepth: -1,
  });
};
`
)

// docs serves the page and its files.
func docs() http.Handler {
	mux := http.NewServeMux()
	for name, file := range map[string]struct{ contentType, text string }{
		"{$}":      {"text/html; charset=utf-8", docsPage},
		"page.css": {"text/css; charset=utf-8", docsStyle},
		"page.js":  {"text/javascript; charset=utf-8", docsScript},
	} {
		mux.HandleFunc(docsPath+"/"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.contentType)
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = w.Write([]byte(file.text))
		})
	}
	mux.Handle(docsPath+"/", http.StripPrefix(docsPath, statigz.FileServer(static.FS)))
	return page.WithHeaders(page.DocumentationPolicy, mux)
}
