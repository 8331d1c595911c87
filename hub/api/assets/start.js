// Shows the hub's own description of its wire.
SwaggerUIBundle({ url: "openapi.json", dom_id: "#wire", deepLinking: true, validatorUrl: null });
