"""Documents of a published version: model card, data sheet, and technical file by the EU AI Act."""
