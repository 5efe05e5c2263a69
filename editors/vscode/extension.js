// Starts `fggc lsp` and connects the editor to it; all else is said in package.json.
"use strict";

const { window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function activate() {
  const [command, ...args] = workspace.getConfiguration("fgg").get("command");
  client = new LanguageClient(
    "fgg",
    "Factor graph grammars",
    { command, args },
    { documentSelector: [{ language: "fgg" }] },
  );
  try {
    await client.start();
  } catch (error) {
    window.showErrorMessage(
      `\`${command}\` did not start (${error.message}). Install it with \`pip install "fgg[lsp]"\`, ` +
        "or set `fgg.command` to where it is.",
    );
  }
}

function deactivate() {
  return client ? client.stop() : undefined;
}

module.exports = { activate, deactivate };
