package server

import (
	"net/http"

	"github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"
)

// docsPage shows the API's description. It is plain text, for a program that can fill in
// templates keeps each exported method of everything it is linked with, and is half as
// large again.
const docsPage = `<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="UTF-8">
  <title>Setpoint - Swagger UI</title>
  <link rel="stylesheet" type="text/css" href="` + docsPath + `/swagger-ui.css">
  <link rel="icon" type="image/png" sizes="32x32" href="` + docsPath + `/favicon-32x32.png">
  <link rel="icon" type="image/png" sizes="16x16" href="` + docsPath + `/favicon-16x16.png">
  <style>body { margin: 0; background: #fafafa; }</style>
</head>
<body>
<div id="swagger-ui"></div>
<script src="` + docsPath + `/swagger-ui-bundle.js"></script>
<script src="` + docsPath + `/swagger-ui-standalone-preset.js"></script>
<script>
window.onload = function () {
  window.ui = SwaggerUIBundle({
    url: "` + openapiPath + `",
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
</script>
</body>
</html>
`

// docs serves the page and what it consists of.
func docs() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(docsPath+"/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(docsPage))
	})
	mux.Handle(docsPath+"/", http.StripPrefix(docsPath, statigz.FileServer(static.FS)))
	return mux
}
